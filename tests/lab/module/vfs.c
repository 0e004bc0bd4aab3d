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

static int switch_to(struct card *card, u32 count)
{
	struct pci_dev *pdev = card->pdev;

	if (pdev->dev.driver != &nvidia_driver.driver)
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
 * -EBUSY while there is a share, and from one number to another other than by way of 0. The device's own lock keeps
 * the driver bound meanwhile; a card's lock would not do, for the driver takes that as it binds the new functions.
 */
int vfs_set(struct card *card, u32 count)
{
	int ret;

	device_lock(&card->pdev->dev);
	ret = switch_to(card, count);
	device_unlock(&card->pdev->dev);
	return ret;
}
