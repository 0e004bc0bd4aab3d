// SPDX-License-Identifier: GPL-2.0
/* /proc/driver/nvidia: the release, and for each card that the driver has what it is and the lock on its unbinding. */

#include <linux/kstrtox.h>
#include <linux/module.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>

#include "nvidia.h"

static struct proc_dir_entry *folder;
static struct proc_dir_entry *gpus;

static int version_show(struct seq_file *file, void *unused)
{
	seq_printf(file, "NVRM version: NVIDIA UNIX x86_64 Kernel Module  %s  (stand-in of a lab)\n",
		   THIS_MODULE->version);
	return 0;
}

static int information_show(struct seq_file *file, void *unused)
{
	const struct card *card = file->private;

	seq_printf(file, "Model: \t\t %s\n", card->model->name);
	seq_puts(file, "Bus Type: \t PCIe\n");
	seq_printf(file, "Bus Location: \t %s\n", pci_name(card->pdev));
	return 0;
}

static int lock_show(struct seq_file *file, void *unused)
{
	const struct card *card = file->private;

	seq_printf(file, "%d\n", READ_ONCE(card->unbind_locked));
	return 0;
}

static int lock_open(struct inode *inode, struct file *file)
{
	return single_open(file, lock_show, pde_data(inode));
}

/* There are no device nodes that a process could hold, so the lock is had at once, and keeps nobody out. */
static ssize_t lock_write(struct file *file, const char __user *buf, size_t count, loff_t *position)
{
	struct card *card = pde_data(file_inode(file));
	bool locked;
	int ret = kstrtobool_from_user(buf, count, &locked);

	if (ret)
		return ret;
	WRITE_ONCE(card->unbind_locked, locked);
	return count;
}

static const struct proc_ops lock_ops = {
	.proc_open = lock_open,
	.proc_read = seq_read,
	.proc_write = lock_write,
	.proc_lseek = seq_lseek,
	.proc_release = single_release,
};

/* For as long as the driver has the card; a new binding finds it unlocked. */
int proc_add(struct card *card)
{
	card->unbind_locked = false;
	card->proc = proc_mkdir(pci_name(card->pdev), gpus);
	if (!card->proc)
		return -ENOMEM;
	if (proc_create_single_data("information", 0444, card->proc, information_show, card) &&
	    proc_create_data("unbindLock", 0644, card->proc, &lock_ops, card))
		return 0;
	proc_drop(card);
	return -ENOMEM;
}

/* Waits for those who are reading. */
void proc_drop(struct card *card)
{
	proc_remove(card->proc);
	card->proc = NULL;
}

int proc_start(void)
{
	folder = proc_mkdir("driver/nvidia", NULL);
	if (!folder)
		return -ENOMEM;
	gpus = proc_mkdir("gpus", folder);
	if (gpus && proc_create_single_data("version", 0444, folder, version_show, NULL))
		return 0;
	proc_stop();
	return -ENOMEM;
}

void proc_stop(void)
{
	proc_remove(folder);
}
