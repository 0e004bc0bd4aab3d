// SPDX-License-Identifier: GPL-2.0
/* A function as a parent of mediated devices: its types, and how many of each there can be now. */

#include <linux/device.h>
#include <linux/mdev.h>
#include <linux/slab.h>
#include <linux/sysfs.h>
#include <linux/vfio.h>

#include "nvidia.h"

struct offer {
	struct mdev_type core;
	char id[12];
	const struct vgpu_type *type;
	struct parent *parent;
};

struct parent {
	struct mdev_parent core;
	struct card *card;
	struct pci_dev *function;
	struct mdev_type **types;
	struct offer offers[];
};

static struct offer *offer_of(struct mdev_type *type)
{
	return container_of(type, struct offer, core);
}

const struct vgpu_type *mediated_type(struct mdev_type *type)
{
	return offer_of(type)->type;
}

struct card *mediated_card(struct mdev_type *type)
{
	return offer_of(type)->parent->card;
}

struct pci_dev *mediated_function(struct mdev_type *type)
{
	return offer_of(type)->parent->function;
}

static unsigned int get_available(struct mdev_type *type)
{
	return card_room(mediated_card(type), mediated_function(type), mediated_type(type));
}

static ssize_t show_description(struct mdev_type *core, char *buf)
{
	const struct vgpu_type *type = mediated_type(core);

	return sysfs_emit(buf, "num_heads=%u, frl_config=%u, framebuffer=%uM, max_resolution=%s, max_instance=%u\n",
			  type->heads, type->frames, type->mib, type->resolution, type->most);
}

static ssize_t vgpu_params_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return card_read_params(vgpu_share(dev), buf);
}

static ssize_t vgpu_params_store(struct device *dev, struct device_attribute *attr, const char *buf, size_t count)
{
	return card_write_params(vgpu_share(dev), buf, count);
}

static DEVICE_ATTR_RW(vgpu_params);

static struct attribute *plugin_attrs[] = {
	&dev_attr_vgpu_params.attr,
	NULL
};

static const struct attribute_group plugin_group = {
	.name = "nvidia",
	.attrs = plugin_attrs,
};

static const struct attribute_group *plugin_groups[] = {
	&plugin_group,
	NULL
};

static struct mdev_driver vgpu_driver = {
	.device_api = VFIO_DEVICE_API_PCI_STRING,
	.probe = vgpu_probe,
	.remove = vgpu_remove,
	.get_available = get_available,
	.show_description = show_description,
	.driver = {
		.name = "nvidia-vgpu-vfio",
		.owner = THIS_MODULE,
		.mod_name = KBUILD_MODNAME,
		.dev_groups = plugin_groups,
	},
};

static struct parent *parent_new(struct pci_dev *function, struct card *card)
{
	const struct model *model = card->model;
	struct parent *parent = kzalloc(struct_size(parent, offers, model->count), GFP_KERNEL);
	size_t i;

	if (!parent)
		return NULL;
	parent->types = kcalloc(model->count, sizeof(*parent->types), GFP_KERNEL);
	if (!parent->types) {
		kfree(parent);
		return NULL;
	}
	parent->card = card;
	parent->function = function;
	for (i = 0; i < model->count; i++) {
		struct offer *offer = &parent->offers[i];

		offer->type = &model->types[i];
		offer->parent = parent;
		snprintf(offer->id, sizeof(offer->id), "%u", offer->type->id);
		offer->core.sysfs_name = offer->id;
		offer->core.pretty_name = offer->type->name;
		parent->types[i] = &offer->core;
	}
	return parent;
}

static void parent_free(struct parent *parent)
{
	kfree(parent->types);
	kfree(parent);
}

int mediated_parent_add(struct pci_dev *function, struct card *card)
{
	struct parent *parent = parent_new(function, card);
	int ret;

	if (!parent)
		return -ENOMEM;
	ret = mdev_register_parent(&parent->core, &function->dev, &vgpu_driver, parent->types, card->model->count);
	if (ret)
		parent_free(parent);
	else
		pci_set_drvdata(function, parent);
	return ret;
}

/* Takes its mediated devices with it, and sleeps until nobody has one open. */
void mediated_parent_remove(struct pci_dev *function)
{
	struct parent *parent = pci_get_drvdata(function);

	mdev_unregister_parent(&parent->core);
	parent_free(parent);
}

int mediated_start(void)
{
	return mdev_register_driver(&vgpu_driver);
}

void mediated_stop(void)
{
	mdev_unregister_driver(&vgpu_driver);
}
