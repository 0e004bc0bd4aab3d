// SPDX-License-Identifier: GPL-2.0
/* The folder "lab" of a card: what a test or a stand-in for one of the vendor's tools asks, and what it sets. */

#include <linux/device.h>
#include <linux/kstrtox.h>
#include <linux/module.h>
#include <linux/sysfs.h>

#include "nvidia.h"

static struct card *card_at(struct device *dev)
{
	return card_of(to_pci_dev(dev));
}

static ssize_t model_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%s\n", card_at(dev)->model->name);
}

static ssize_t memory_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", card_at(dev)->model->mib);
}

/* One line a type, made now or not: number, MiB, most of them, screens, frames a second, resolution, name. */
static ssize_t types_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	const struct model *model = card_at(dev)->model;
	const struct vgpu_type *type;
	int length = 0;

	for (type = model->types; type < model->types + model->count; type++)
		length += sysfs_emit_at(buf, length, "%u %u %u %u %u %s %s\n", type->id, type->mib, type->most,
					type->heads, type->frames, type->resolution, type->name);
	return length;
}

/* One line a share: its UUID or the address of its function, the number of its type, whether it is open. */
static ssize_t vgpus_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct card *card = card_at(dev);
	const struct share *share;
	int length = 0;

	mutex_lock(&card->lock);
	list_for_each_entry(share, &card->shares, link)
		length += sysfs_emit_at(buf, length, "%s %u %d\n", share->name, share->type->id, share->open);
	mutex_unlock(&card->lock);
	return length;
}

static ssize_t vfs_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%d\n", pci_num_vf(to_pci_dev(dev)));
}

/*
 * Whoever takes the card off the bus holds the lock on scans, which vfs_set() wants, and waits for this file's users.
 * So we are none of them meanwhile; device and module are held by references of our own instead.
 */
static ssize_t vfs_store(struct device *dev, struct device_attribute *attr, const char *buf, size_t count)
{
	struct kernfs_node *node;
	u32 number;
	int ret = kstrtou32(buf, 0, &number);

	if (ret)
		return ret;
	if (!try_module_get(THIS_MODULE))
		return -ENODEV;
	get_device(dev);
	node = sysfs_break_active_protection(&dev->kobj, &attr->attr);
	ret = vfs_set(to_pci_dev(dev), number);
	if (node)
		sysfs_unbreak_active_protection(node);
	put_device(dev);
	module_put(THIS_MODULE);
	return ret ?: count;
}

static ssize_t lost_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%d\n", card_is_lost(card_at(dev)));
}

/* 0 brings it back, which no real card does; so one test need not end another's. */
static ssize_t lost_store(struct device *dev, struct device_attribute *attr, const char *buf, size_t count)
{
	struct card *card = card_at(dev);
	bool lost;
	int ret = kstrtobool(buf, &lost);

	if (ret)
		return ret;
	mutex_lock(&card->lock);
	WRITE_ONCE(card->lost, lost);
	mutex_unlock(&card->lock);
	if (lost) {
		pr_err("NVRM: GPU at PCI:%s: GPU has fallen off the bus.\n", dev_name(dev));
		pr_err("NVRM: Xid (PCI:%s): 79, GPU has fallen off the bus.\n", dev_name(dev));
	}
	return count;
}

static DEVICE_ATTR_RO(model);
static DEVICE_ATTR_RO(memory);
static DEVICE_ATTR_RO(types);
static DEVICE_ATTR_RO(vgpus);
static DEVICE_ATTR_RW(vfs);
static DEVICE_ATTR_RW(lost);

static struct attribute *lab_attrs[] = {
	&dev_attr_model.attr,
	&dev_attr_memory.attr,
	&dev_attr_types.attr,
	&dev_attr_vgpus.attr,
	&dev_attr_vfs.attr,
	&dev_attr_lost.attr,
	NULL
};

static umode_t lab_is_visible(struct kobject *kobj, struct attribute *attr, int number)
{
	struct pci_dev *pdev = to_pci_dev(kobj_to_dev(kobj));

	if (attr == &dev_attr_vfs.attr && !pci_sriov_get_totalvfs(pdev))
		return 0;
	return attr->mode;
}

static const struct attribute_group lab_group = {
	.name = "lab",
	.attrs = lab_attrs,
	.is_visible = lab_is_visible,
};

int lab_add(struct card *card)
{
	return sysfs_create_group(&card->pdev->dev.kobj, &lab_group);
}

void lab_remove(struct card *card)
{
	sysfs_remove_group(&card->pdev->dev.kobj, &lab_group);
}
