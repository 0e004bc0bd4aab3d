// SPDX-License-Identifier: GPL-2.0
/* The driver "nvidia": it binds to what is dressed, and offers on each function what its card's model can do. */

#include <linux/module.h>

#include "nvidia.h"

static char *cards = "";
module_param(cards, charp, 0444);
MODULE_PARM_DESC(cards, "What is dressed as what: ADDRESS=MODEL,...; models are v100, t4, a40, l40s");

/* By class as well: the ids alone would match other functions of real boards. Nothing is loaded by this table. */
static const struct pci_device_id ids[] = {
	{ PCI_DEVICE(PCI_VENDOR_ID_NVIDIA, PCI_ANY_ID), .class = PCI_CLASS_DISPLAY_3D << 8, .class_mask = ~0xffU },
	{ }
};

/* Whether user space drives the function through vfio itself. That enables it when it is opened, not before. */
static bool is_vfio_function(const struct pci_dev *function, const struct card *card)
{
	return card->model->way == VFIO_ON_VFS && function->is_virtfn;
}

static bool is_parent(const struct pci_dev *function, const struct card *card)
{
	return card->model->way == (function->is_virtfn ? MDEV_ON_VFS : MDEV_ON_PF);
}

static int offer(struct pci_dev *function, struct card *card)
{
	int ret = function->is_virtfn ? 0 : proc_add(card);

	if (ret || !is_parent(function, card))
		return ret;
	ret = mediated_parent_add(function, card);
	if (ret && !function->is_virtfn)
		proc_drop(card);
	return ret;
}

/* Real boards of the vendor's are left alone: they wear nothing of ours. */
static int nvidia_probe(struct pci_dev *function, const struct pci_device_id *id)
{
	struct card *card = card_of(function);
	int ret;

	if (!card)
		return -ENODEV;
	if (card_is_lost(card))
		return -EIO;
	if (is_vfio_function(function, card))
		return function_add(function, card);
	ret = pci_enable_device(function);
	if (ret)
		return ret;
	ret = offer(function, card);
	if (ret)
		pci_disable_device(function);
	return ret;
}

static void nvidia_remove(struct pci_dev *function)
{
	struct card *card = card_of(function);

	if (is_vfio_function(function, card)) {
		function_remove(function);
		return;
	}
	if (is_parent(function, card))
		mediated_parent_remove(function);
	if (pci_num_vf(function))
		pci_disable_sriov(function);
	if (!function->is_virtfn)
		proc_drop(card);
	pci_disable_device(function);
}

/*
 * There is no sriov_configure: like the vendor's driver, this one refuses a plain write to sriov_numvfs.
 * driver_managed_dma: the functions do no DMA of ours, and vfio must be able to claim the groups of those it gets.
 */
struct pci_driver nvidia_driver = {
	.name = "nvidia",
	.id_table = ids,
	.probe = nvidia_probe,
	.remove = nvidia_remove,
	.driver_managed_dma = true,
};

static int __init nvidia_init(void)
{
	int ret = proc_start();

	if (ret)
		return ret;
	ret = mediated_start();
	if (ret)
		goto no_mediated;
	ret = dressing_start(cards);
	if (ret)
		goto no_dressing;
	ret = pci_register_driver(&nvidia_driver);
	if (ret)
		goto no_driver;
	return 0;

no_driver:
	dressing_stop();
no_dressing:
	mediated_stop();
no_mediated:
	proc_stop();
	return ret;
}

static void __exit nvidia_exit(void)
{
	pci_unregister_driver(&nvidia_driver);
	dressing_stop();
	mediated_stop();
	proc_stop();
}

module_init(nvidia_init);
module_exit(nvidia_exit);

MODULE_DESCRIPTION("Stand-in for the NVIDIA driver on a lab host without GPUs");
MODULE_LICENSE("GPL");
MODULE_VERSION("570.158.02");
