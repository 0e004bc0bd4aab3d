// SPDX-License-Identifier: GPL-2.0
/* Who has how much of a card. All shares of a card have the same size, as with NVIDIA's: the first one decides. */

#include <linux/string.h>
#include <linux/sysfs.h>

#include "nvidia.h"

void card_init(struct card *card, struct pci_dev *pdev, const struct model *model)
{
	card->pdev = pdev;
	card->model = model;
	mutex_init(&card->lock);
	INIT_LIST_HEAD(&card->shares);
}

bool card_is_lost(const struct card *card)
{
	return READ_ONCE(card->lost);
}

/* How many more of a type fit, made on this function. A virtual function takes one share, the card itself many. */
static u32 room(const struct card *card, const struct pci_dev *function, const struct vgpu_type *type)
{
	const struct share *share;
	u32 held = 0;

	if (card->lost)
		return 0;
	list_for_each_entry(share, &card->shares, link) {
		if (share->type->mib != type->mib)
			return 0;
		if (function->is_virtfn && share->function == function)
			return 0;
		held++;
	}
	if (held >= type->most)
		return 0;
	return function->is_virtfn ? 1 : type->most - held;
}

u32 card_room(struct card *card, struct pci_dev *function, const struct vgpu_type *type)
{
	u32 count;

	mutex_lock(&card->lock);
	count = room(card, function, type);
	mutex_unlock(&card->lock);
	return count;
}

static bool is_taken(const struct card *card, u32 start)
{
	const struct share *share;

	list_for_each_entry(share, &card->shares, link)
		if (share->start == start)
			return true;
	return false;
}

/* Book a share of a type: -EIO on a lost card, -ENOSPC where there is no room. The caller has set card and function. */
int card_take(struct share *share, const struct vgpu_type *type)
{
	struct card *card = share->card;
	u32 start = 0;
	int ret = 0;

	mutex_lock(&card->lock);
	if (card->lost) {
		ret = -EIO;
	} else if (!room(card, share->function, type)) {
		ret = -ENOSPC;
	} else {
		while (is_taken(card, start))
			start += type->mib;
		share->start = start;
		share->type = type;
		share->params[0] = '\0';
		list_add_tail(&share->link, &card->shares);
	}
	mutex_unlock(&card->lock);
	return ret;
}

/* -EBUSY while a machine has it open. Nothing happens where there is no share. */
int card_give_back(struct share *share)
{
	struct card *card = share->card;
	int ret = 0;

	mutex_lock(&card->lock);
	if (share->open) {
		ret = -EBUSY;
	} else if (share->type) {
		list_del(&share->link);
		share->type = NULL;
	}
	mutex_unlock(&card->lock);
	return ret;
}

/* From here to card_close() the share cannot be given back, so its type stays what it is. */
int card_open(struct share *share)
{
	struct card *card = share->card;
	int ret = fault_open();

	if (ret)
		return ret;
	mutex_lock(&card->lock);
	if (card->lost)
		ret = -EIO;
	else if (!share->type)
		ret = -ENODEV;
	else
		share->open = true;
	mutex_unlock(&card->lock);
	return ret;
}

void card_close(struct share *share)
{
	mutex_lock(&share->card->lock);
	share->open = false;
	mutex_unlock(&share->card->lock);
}

ssize_t card_read_params(struct share *share, char *buf)
{
	ssize_t length;

	mutex_lock(&share->card->lock);
	length = sysfs_emit(buf, "%s\n", share->params);
	mutex_unlock(&share->card->lock);
	return length;
}

/* One blank clears them, as NVIDIA's guide says. A share that a machine has open keeps what it was opened with. */
ssize_t card_write_params(struct share *share, const char *buf, size_t count)
{
	ssize_t ret = count;

	if (count >= PARAMS_SIZE)
		return -EINVAL;
	mutex_lock(&share->card->lock);
	if (share->open)
		ret = -EBUSY;
	else if (!share->type)
		ret = -ENXIO;
	else
		strscpy(share->params, skip_spaces(buf), PARAMS_SIZE);
	if (ret > 0)
		strim(share->params);
	mutex_unlock(&share->card->lock);
	return ret;
}
