// SPDX-License-Identifier: GPL-2.0
/* A card's virtual functions, on and off: what the vendor's tool sriov-manage does, for the stand-in of that tool. */

#include <linux/device.h>

#include "nvidia.h"

static bool is_used(struct card *card)
{
	bool used;

	mutex_lock(&card->lock);
	used = !list_empty(&card->shares);
	mutex_unlock(&card->lock);
	return used;
}

static int switch_to(struct pci_dev *pdev, u32 count)
{
	struct card *card = card_of(pdev);

	if (!card || pdev->dev.driver != &nvidia_driver.driver)
		return -ENODEV;
	if (card_is_lost(card))
		return -EIO;
	if (count > pci_sriov_get_totalvfs(pdev))
		return -ERANGE;
	if (count == pci_num_vf(pdev))
		return 0;
	if (is_used(card) || (count && pci_num_vf(pdev)))
		return -EBUSY;
	if (count)
		return pci_enable_sriov(pdev, count);
	pci_disable_sriov(pdev);
	return 0;
}

/*
 * -EBUSY while there is a share, and from one number to another other than by way of 0.
 *
 * QEMU reports each new function as a hot-plugged device, too, and the kernel then scans the bus: without the lock on
 * scans it would add the same function twice. The device's own lock keeps the driver bound meanwhile; a card's lock
 * would not do, for the driver takes that as it binds the new functions.
 */
int vfs_set(struct pci_dev *pdev, u32 count)
{
	int ret;

	pci_lock_rescan_remove();
	device_lock(&pdev->dev);
	ret = switch_to(pdev, count);
	device_unlock(&pdev->dev);
	pci_unlock_rescan_remove();
	return ret;
}
