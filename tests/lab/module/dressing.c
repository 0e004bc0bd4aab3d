// SPDX-License-Identifier: GPL-2.0
/*
 * Which functions wear what: those that the parameter names, and the virtual functions of these.
 *
 * A function is dressed when the kernel adds it, before it looks for a driver; one that is there already loses its
 * driver first. The clothes are the ids in struct pci_dev, by which drivers are matched and which sysfs shows, and the
 * same ids in config space.
 */

#include <linux/cleanup.h>
#include <linux/slab.h>

#include "nvidia.h"

#define CLASS_3D (PCI_CLASS_DISPLAY_3D << 8)
#define REVISION 0xa1

struct dress {
	struct list_head link;
	struct pci_dev *function;
	struct card *card;
	struct card own_card;	/* of a physical function */
	struct header header;
	u16 vendor, device, subsystem_vendor, subsystem_device;	/* what it had before */
	u32 class;
	u8 revision;
};

struct wish {
	struct list_head link;
	const struct model *model;
	char address[sizeof("0000:00:00.0") + 4];
};

static LIST_HEAD(dresses);
static DEFINE_MUTEX(dresses_lock);
static LIST_HEAD(wishes);	/* from load on it stays as it is */

static struct dress *dress_of(const struct pci_dev *function)
{
	struct dress *dress;

	list_for_each_entry(dress, &dresses, link)
		if (dress->function == function)
			return dress;
	return NULL;
}

struct card *card_of(struct pci_dev *function)
{
	struct dress *dress;

	guard(mutex)(&dresses_lock);
	dress = dress_of(function);
	return dress ? dress->card : NULL;
}

static const struct model *wished(const struct pci_dev *function)
{
	const struct wish *wish;

	list_for_each_entry(wish, &wishes, link)
		if (!strcmp(wish->address, pci_name(function)))
			return wish->model;
	return NULL;
}

static void show(struct header *header, int where, u32 value, int size)
{
	int i;

	for (i = 0; i < size; i++) {
		header->bytes[where + i] = value >> (8 * i);
		header->shown |= BIT_ULL(where + i);
	}
}

static void put_ids(struct dress *dress)
{
	const struct model *model = dress->card->model;
	struct pci_dev *function = dress->function;
	struct header *header = &dress->header;

	dress->vendor = function->vendor;
	dress->device = function->device;
	dress->subsystem_vendor = function->subsystem_vendor;
	dress->subsystem_device = function->subsystem_device;
	dress->class = function->class;
	dress->revision = function->revision;

	function->vendor = PCI_VENDOR_ID_NVIDIA;
	function->device = model->device;
	function->subsystem_vendor = PCI_VENDOR_ID_NVIDIA;
	function->subsystem_device = model->subsystem;
	function->class = CLASS_3D;
	function->revision = REVISION;

	show(header, PCI_VENDOR_ID, PCI_VENDOR_ID_NVIDIA, 2);
	show(header, PCI_DEVICE_ID, model->device, 2);
	show(header, PCI_REVISION_ID, REVISION, 1);
	show(header, PCI_CLASS_PROG, CLASS_3D, 3);
	show(header, PCI_SUBSYSTEM_VENDOR_ID, PCI_VENDOR_ID_NVIDIA, 2);
	show(header, PCI_SUBSYSTEM_ID, model->subsystem, 2);
	if (function->is_virtfn)
		show(header, PCI_INTERRUPT_PIN, 0, 1);	/* has none by rule; QEMU's says it has one */
	header->card = dress->card;
	header->virtual = function->is_virtfn;
}

static void restore_ids(struct dress *dress)
{
	struct pci_dev *function = dress->function;

	function->vendor = dress->vendor;
	function->device = dress->device;
	function->subsystem_vendor = dress->subsystem_vendor;
	function->subsystem_device = dress->subsystem_device;
	function->class = dress->class;
	function->revision = dress->revision;
}

static void take_off(struct dress *dress)
{
	scoped_guard(mutex, &dresses_lock)
		list_del(&dress->link);
	config_space_take_off(dress->function);
	restore_ids(dress);
	kfree(dress);
}

static int dress_function(struct pci_dev *function)
{
	struct card *card = function->is_virtfn ? card_of(function->physfn) : NULL;
	const struct model *model = function->is_virtfn ? NULL : wished(function);
	struct dress *dress;
	int ret;

	if (!card && !model)
		return 0;
	dress = kzalloc(sizeof(*dress), GFP_KERNEL);
	if (!dress)
		return -ENOMEM;
	if (model) {
		card = &dress->own_card;
		card_init(card, function, model);
	}
	dress->function = function;
	dress->card = card;
	put_ids(dress);
	ret = config_space_wear(function, &dress->header);
	if (ret) {
		restore_ids(dress);
		kfree(dress);
		return ret;
	}
	scoped_guard(mutex, &dresses_lock)
		list_add_tail(&dress->link, &dresses);
	if (!model)
		return 0;
	ret = lab_add(card);
	if (ret)
		take_off(dress);
	else
		pci_info(function, "NVRM: wears the ids of a %s\n", model->name);
	return ret;
}

/* A card's virtual functions go before the card, and it has no driver of ours any more: nobody has a share of it. */
static void undress(struct dress *dress)
{
	if (dress->card == &dress->own_card)
		lab_remove(dress->card);
	take_off(dress);
}

static int on_bus_event(struct notifier_block *block, unsigned long event, void *data)
{
	struct pci_dev *function = to_pci_dev(data);
	struct dress *dress;

	if (event == BUS_NOTIFY_ADD_DEVICE && dress_function(function))
		pci_err(function, "NVRM: cannot be dressed, and stays what it is\n");
	if (event == BUS_NOTIFY_DEL_DEVICE) {
		scoped_guard(mutex, &dresses_lock)
			dress = dress_of(function);
		if (dress)
			undress(dress);
	}
	return NOTIFY_DONE;
}

static struct notifier_block bus_events = { .notifier_call = on_bus_event };

/* The functions that were there before us, physical ones before virtual ones: so the kernel lists them. */
static int dress_present(void)
{
	struct pci_dev *function = NULL;
	int ret;

	while ((function = pci_get_device(PCI_ANY_ID, PCI_ANY_ID, function))) {
		if (!wished(function) && !(function->is_virtfn && card_of(function->physfn)))
			continue;
		device_release_driver(&function->dev);
		ret = dress_function(function);
		if (ret) {
			pci_dev_put(function);
			return ret;
		}
	}
	return 0;
}

static void undress_all(void)
{
	struct dress *dress, *next;

	list_for_each_entry_safe_reverse(dress, next, &dresses, link) {
		struct pci_dev *function = pci_dev_get(dress->function);

		undress(dress);
		if (device_attach(&function->dev) < 0)
			pci_warn(function, "NVRM: its own driver did not take it back\n");
		pci_dev_put(function);
	}
}

static void forget_wishes(void)
{
	struct wish *wish, *next;

	list_for_each_entry_safe(wish, next, &wishes, link)
		kfree(wish);
	INIT_LIST_HEAD(&wishes);
}

/* One "0000:04:00.0=t4" of the list. */
static int make_wish(const char *text, size_t length)
{
	const char *sign = strnchr(text, length, '=');
	size_t before = sign ? sign - text : 0;
	const struct model *model = sign ? model_named(sign + 1, length - before - 1) : NULL;
	struct wish *wish;

	if (!model || before >= sizeof(wish->address)) {
		pr_err("NVRM: cards: \"%.*s\" is no ADDRESS=MODEL\n", (int)length, text);
		return -EINVAL;
	}
	wish = kzalloc(sizeof(*wish), GFP_KERNEL);
	if (!wish)
		return -ENOMEM;
	memcpy(wish->address, text, before);
	wish->model = model;
	list_add_tail(&wish->link, &wishes);
	return 0;
}

static int read_wishes(const char *wanted)
{
	while (*wanted) {
		size_t length = strcspn(wanted, ", \n");
		int ret = length ? make_wish(wanted, length) : 0;

		if (ret)
			return ret;
		wanted += length + (wanted[length] != '\0');
	}
	return 0;
}

int dressing_start(const char *wanted)
{
	int ret = read_wishes(wanted);

	if (ret)
		goto forget;
	ret = dress_present();
	if (!ret)
		ret = bus_register_notifier(&pci_bus_type, &bus_events);
	if (!ret)
		return 0;
	undress_all();
forget:
	forget_wishes();
	return ret;
}

/* Our driver is gone by now, so no virtual function comes or goes while the list is walked. */
void dressing_stop(void)
{
	bus_unregister_notifier(&pci_bus_type, &bus_events);
	undress_all();
	forget_wishes();
}
