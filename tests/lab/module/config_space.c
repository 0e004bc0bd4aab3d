// SPDX-License-Identifier: GPL-2.0
/*
 * What a dressed function says in config space.
 *
 * Reads of its bus go through here, so that whoever asks is told the same: lspci, vfio-pci and through it the machine.
 * A bus has one set of operations for all its functions, hence one table for each bus, by device and function number.
 * On x86 config space is read without a lock and in any context, so the tables are read under RCU.
 */

#include <linux/rcupdate.h>
#include <linux/slab.h>

#include "nvidia.h"

struct dressed_bus {
	struct list_head link;
	struct pci_bus *bus;
	struct pci_ops *own;		/* what the bus had before */
	struct pci_ops ops;		/* the same, with our read */
	struct header __rcu *functions[256];
	unsigned int count;
};

static LIST_HEAD(buses);
static DEFINE_MUTEX(buses_lock);

static u32 worn(const struct header *header, int where, int size, u32 own)
{
	u32 value = own;
	int i;

	if (card_is_lost(header->card))
		return size == 4 ? ~0U : (1U << (8 * size)) - 1;
	/* A function that is gone must not look present. A virtual one has all ones in some of these places by rule. */
	if (!header->virtual && size == 4 && PCI_POSSIBLE_ERROR(own))
		return own;
	for (i = 0; i < size && where + i < PCI_STD_HEADER_SIZEOF; i++) {
		if (!(header->shown & BIT_ULL(where + i)))
			continue;
		value &= ~(0xffU << (8 * i));
		value |= (u32)header->bytes[where + i] << (8 * i);
	}
	return value;
}

static int dressed_read(struct pci_bus *bus, unsigned int devfn, int where, int size, u32 *value)
{
	struct pci_ops *ops = READ_ONCE(bus->ops);
	const struct dressed_bus *dressed;
	const struct header *header;
	int ret;

	/* Whoever called had found ours here; they may have been taken off since. */
	if (ops->read != dressed_read)
		return ops->read(bus, devfn, where, size, value);
	dressed = container_of(ops, struct dressed_bus, ops);
	rcu_read_lock();
	ret = dressed->own->read(bus, devfn, where, size, value);
	/* A bus that was made below this one since has its operations, but functions of its own. */
	header = bus == dressed->bus ? rcu_dereference(dressed->functions[devfn]) : NULL;
	if (header && ret == PCIBIOS_SUCCESSFUL)
		*value = worn(header, where, size, *value);
	rcu_read_unlock();
	return ret;
}

static struct dressed_bus *dressed_bus_of(const struct pci_bus *bus)
{
	struct dressed_bus *dressed;

	list_for_each_entry(dressed, &buses, link)
		if (dressed->bus == bus)
			return dressed;
	return NULL;
}

/* What a bus has without any of ours: one that was made below a dressed one since has those of that one. */
static struct pci_ops *own_ops(const struct pci_bus *bus)
{
	if (bus->ops->read != dressed_read)
		return bus->ops;
	return container_of(bus->ops, struct dressed_bus, ops)->own;
}

static struct dressed_bus *dress_bus(struct pci_bus *bus)
{
	struct dressed_bus *dressed = kzalloc(sizeof(*dressed), GFP_KERNEL);

	if (!dressed)
		return NULL;
	get_device(&bus->dev);
	dressed->bus = bus;
	dressed->own = own_ops(bus);
	dressed->ops = *dressed->own;
	dressed->ops.read = dressed_read;
	list_add(&dressed->link, &buses);
	pci_bus_set_ops(bus, &dressed->ops);
	return dressed;
}

static void undress_bus(struct dressed_bus *dressed)
{
	struct pci_bus *below;

	pci_bus_set_ops(dressed->bus, dressed->own);
	list_for_each_entry(below, &dressed->bus->children, node)
		if (below->ops == &dressed->ops)
			pci_bus_set_ops(below, dressed->own);
	list_del(&dressed->link);
	/* Who entered our read by the old pointer has left it once every task has been to sleep or in user space. */
	synchronize_rcu_tasks();
	synchronize_rcu();
	put_device(&dressed->bus->dev);
	kfree(dressed);
}

/* The header must stay until config_space_take_off() comes back. */
int config_space_wear(struct pci_dev *function, struct header *header)
{
	struct dressed_bus *dressed;
	int ret = 0;

	mutex_lock(&buses_lock);
	dressed = dressed_bus_of(function->bus);
	if (!dressed)
		dressed = dress_bus(function->bus);
	if (dressed) {
		rcu_assign_pointer(dressed->functions[function->devfn], header);
		dressed->count++;
	} else {
		ret = -ENOMEM;
	}
	mutex_unlock(&buses_lock);
	return ret;
}

void config_space_take_off(struct pci_dev *function)
{
	struct dressed_bus *dressed;

	mutex_lock(&buses_lock);
	dressed = dressed_bus_of(function->bus);
	RCU_INIT_POINTER(dressed->functions[function->devfn], NULL);
	if (--dressed->count)
		synchronize_rcu();
	else
		undress_bus(dressed);
	mutex_unlock(&buses_lock);
}
