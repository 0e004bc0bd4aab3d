// SPDX-License-Identifier: GPL-2.0
/*
 * A virtual function with the vendor's own interface: a type is written to it, and it is given to a machine as it is.
 *
 * The driver is a variant of vfio-pci: what the machine reads, writes and maps is the function's own, by the kernel's
 * vfio-pci core. Added are the type, without which nobody may open it, and the picture of the types that have one.
 */

#include <linux/device.h>
#include <linux/kstrtox.h>
#include <linux/sysfs.h>
#include <linux/vfio_pci_core.h>

#include "nvidia.h"

#define PICTURE_TYPE (VFIO_REGION_TYPE_PCI_VENDOR_TYPE | PCI_VENDOR_ID_NVIDIA)
#define PICTURE_SUBTYPE 1
#define PICTURE_FLAGS (VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE | VFIO_REGION_INFO_FLAG_MMAP)

struct function {
	struct vfio_pci_core_device core;
	struct share share;
	void *picture;		/* while it is open and the type has one */
	u32 picture_region;
};

static struct function *function_of(struct vfio_device *vfio)
{
	return container_of(vfio, struct function, core.vdev);
}

static struct function *function_at(struct device *dev)
{
	struct vfio_pci_core_device *core = dev_get_drvdata(dev);

	return container_of(core, struct function, core);
}

/* There is no UUID to take a colour from; bus, function and type tell shares apart as well. 0xRRGGBB. */
static u32 colour_of(const struct share *share)
{
	const struct pci_dev *function = share->function;
	u8 red = function->bus->number << 4, green = function->devfn << 4, blue = share->type->id;

	return red << 16 | green << 8 | blue;
}

static ssize_t picture_rw(struct vfio_pci_core_device *core, char __user *buf, size_t count, loff_t *position,
			  bool write)
{
	struct function *function = container_of(core, struct function, core);
	u64 at = *position & VFIO_PCI_OFFSET_MASK;

	if (at >= PICTURE_SPACE)
		return -EINVAL;
	count = min_t(u64, count, PICTURE_SPACE - at);
	if (write ? copy_from_user(function->picture + at, buf, count) :
		    copy_to_user(buf, function->picture + at, count))
		return -EFAULT;
	*position += count;
	return count;
}

static int picture_map(struct vfio_pci_core_device *core, struct vfio_pci_region *region, struct vm_area_struct *vma)
{
	return picture_mmap(region->data, vma);
}

/* The picture is freed when the device is closed, after the core has let go of its regions. */
static void picture_release(struct vfio_pci_core_device *core, struct vfio_pci_region *region)
{
}

static const struct vfio_pci_regops picture_ops = {
	.rw = picture_rw,
	.release = picture_release,
	.mmap = picture_map,
};

static int picture_add(struct function *function)
{
	struct share *share = &function->share;
	int ret;

	if (!share->type->screen)
		return 0;
	function->picture = picture_new(colour_of(share), share->type->name, share->name);
	if (!function->picture)
		return -ENOMEM;
	ret = vfio_pci_core_register_dev_region(&function->core, PICTURE_TYPE, PICTURE_SUBTYPE, &picture_ops,
						PICTURE_SPACE, PICTURE_FLAGS, function->picture);
	function->picture_region = VFIO_PCI_NUM_REGIONS + function->core.num_regions - 1;
	return ret;
}

static void picture_drop(struct function *function)
{
	picture_free(function->picture);
	function->picture = NULL;
}

static int function_open(struct vfio_device *vfio)
{
	struct function *function = function_of(vfio);
	int ret = card_open(&function->share);

	if (ret)
		return ret;
	ret = vfio_pci_core_enable(&function->core);
	if (ret)
		goto no_device;
	ret = picture_add(function);
	if (ret)
		goto no_picture;
	vfio_pci_core_finish_enable(&function->core);
	return 0;

no_picture:
	vfio_pci_core_disable(&function->core);
	picture_drop(function);
no_device:
	card_close(&function->share);
	return ret;
}

static void function_close(struct vfio_device *vfio)
{
	struct function *function = function_of(vfio);

	vfio_pci_core_close_device(vfio);
	picture_drop(function);
	card_close(&function->share);
}

static long function_ioctl(struct vfio_device *vfio, unsigned int command, unsigned long arg)
{
	struct function *function = function_of(vfio);
	u16 told = 0;

	if (command != VFIO_DEVICE_QUERY_GFX_PLANE)
		return vfio_pci_core_ioctl(vfio, command, arg);
	pci_read_config_word(function->core.pdev, PCI_COMMAND, &told);
	return picture_plane(arg, &function->share, function->picture_region, told & PCI_COMMAND_MASTER);
}

static const struct vfio_device_ops function_ops = {
	.name = "nvidia-vgpu-vfio-pci",
	.init = vfio_pci_core_init_dev,
	.release = vfio_pci_core_release_dev,
	.open_device = function_open,
	.close_device = function_close,
	.ioctl = function_ioctl,
	.device_feature = vfio_pci_core_ioctl_feature,
	.read = vfio_pci_core_read,
	.write = vfio_pci_core_write,
	.mmap = vfio_pci_core_mmap,
	.request = vfio_pci_core_request,
	.match = vfio_pci_core_match,
	.bind_iommufd = vfio_iommufd_physical_bind,
	.unbind_iommufd = vfio_iommufd_physical_unbind,
	.attach_ioas = vfio_iommufd_physical_attach_ioas,
	.detach_ioas = vfio_iommufd_physical_detach_ioas,
};

/* What can be made here now; with a type of its own, or on a full card, only the header is left. */
static ssize_t creatable_vgpu_types_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct share *share = &function_at(dev)->share;
	const struct model *model = share->card->model;
	int length = sysfs_emit(buf, "%-6s: %s\n", "ID", "vGPU Name");
	size_t i;

	for (i = 0; i < model->count; i++)
		if (card_room(share->card, share->function, &model->types[i]))
			length += sysfs_emit_at(buf, length, "%-6u: %s\n", model->types[i].id, model->types[i].name);
	return length;
}

static ssize_t current_vgpu_type_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct share *share = &function_at(dev)->share;
	u32 id;

	mutex_lock(&share->card->lock);
	id = share->type ? share->type->id : 0;
	mutex_unlock(&share->card->lock);
	return sysfs_emit(buf, "%u\n", id);
}

static int set_type(struct share *share, u32 id)
{
	const struct vgpu_type *type = model_type(share->card->model, id);
	int ret = fault_create();

	if (!ret)
		ret = type ? card_take(share, type) : -EIO;
	if (ret)
		pr_err("NVRM: Failed to add vgpu create request: 0x38\n");
	return ret == -ENOSPC ? -EIO : ret;
}

/* A number makes a share, 0 takes it away; the vendor's driver answers EIO where it has no room. */
static ssize_t current_vgpu_type_store(struct device *dev, struct device_attribute *attr, const char *buf, size_t count)
{
	struct share *share = &function_at(dev)->share;
	u32 id;
	int ret = kstrtou32(buf, 10, &id);

	if (!ret)
		ret = id ? set_type(share, id) : card_give_back(share);
	return ret ?: count;
}

/* The cards here have no GPU instances. */
static ssize_t gpu_instance_id_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return -ENXIO;
}

/* In GiB from the start of the frame buffer, once a machine has it open. */
static ssize_t placement_id_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct share *share = &function_at(dev)->share;
	ssize_t length = -ENXIO;

	mutex_lock(&share->card->lock);
	if (share->open)
		length = sysfs_emit(buf, "%u\n", share->start / 1024);
	mutex_unlock(&share->card->lock);
	return length;
}

static ssize_t vgpu_params_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return card_read_params(&function_at(dev)->share, buf);
}

static ssize_t vgpu_params_store(struct device *dev, struct device_attribute *attr, const char *buf, size_t count)
{
	return card_write_params(&function_at(dev)->share, buf, count);
}

static DEVICE_ATTR_RO(creatable_vgpu_types);
static DEVICE_ATTR_RW(current_vgpu_type);
static DEVICE_ATTR_RO(gpu_instance_id);
static DEVICE_ATTR_RO(placement_id);
static DEVICE_ATTR_RW(vgpu_params);

static struct attribute *nvidia_attrs[] = {
	&dev_attr_creatable_vgpu_types.attr,
	&dev_attr_current_vgpu_type.attr,
	&dev_attr_gpu_instance_id.attr,
	&dev_attr_placement_id.attr,
	&dev_attr_vgpu_params.attr,
	NULL
};

static const struct attribute_group nvidia_group = {
	.name = "nvidia",
	.attrs = nvidia_attrs,
};

int function_add(struct pci_dev *pdev, struct card *card)
{
	struct function *function = vfio_alloc_device(function, core.vdev, &pdev->dev, &function_ops);
	int ret;

	if (IS_ERR(function))
		return PTR_ERR(function);
	function->share.card = card;
	function->share.function = pdev;
	function->share.name = pci_name(pdev);
	dev_set_drvdata(&pdev->dev, &function->core);
	ret = vfio_pci_core_register_device(&function->core);
	if (ret)
		goto no_device;
	ret = sysfs_create_group(&pdev->dev.kobj, &nvidia_group);
	if (ret)
		goto no_files;
	return 0;

no_files:
	vfio_pci_core_unregister_device(&function->core);
no_device:
	vfio_put_device(&function->core.vdev);
	return ret;
}

/* Sleeps until nobody has it open; then its frame buffer is free again. */
void function_remove(struct pci_dev *pdev)
{
	struct function *function = function_at(&pdev->dev);

	sysfs_remove_group(&pdev->dev.kobj, &nvidia_group);
	vfio_pci_core_unregister_device(&function->core);
	card_give_back(&function->share);
	vfio_put_device(&function->core.vdev);
}
