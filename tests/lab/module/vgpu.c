// SPDX-License-Identifier: GPL-2.0
/*
 * A mediated device as a machine sees it: a PCI display controller without interrupts, whose second BAR is its picture.
 *
 * It never touches the machine's memory, so nothing is pinned and there is no dma_unmap.
 */

#include <linux/mdev.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/vfio.h>
#include <linux/vfio_pci_core.h>

#include "nvidia.h"

#define CONFIG_SIZE 256
#define REGISTERS_SIZE 0x1000
#define PICTURE_REGION VFIO_PCI_NUM_REGIONS	/* the picture once more, where QEMU's console looks for it */

struct vgpu {
	struct vfio_device vfio;
	struct share share;
	void *picture;		/* while it is open */
	u8 config[CONFIG_SIZE];
	u8 registers[REGISTERS_SIZE];	/* the first BAR; nothing is behind it */
};

/* Which bits of the header a machine may write: command, interrupt line, and of the BARs those above their size. */
static const u8 writable[CONFIG_SIZE] = {
	[PCI_COMMAND] = PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER,
	[PCI_COMMAND + 1] = PCI_COMMAND_INTX_DISABLE >> 8,
	[PCI_BASE_ADDRESS_0 + 1] = 0xf0, 0xff, 0xff,
	[PCI_BASE_ADDRESS_1 + 2] = 0xe0, 0xff, 0xff, 0xff, 0xff, 0xff,
	[PCI_INTERRUPT_LINE] = 0xff,
};

static const u8 all_ones[CONFIG_SIZE] = { [0 ... CONFIG_SIZE - 1] = 0xff };

static struct vgpu *vgpu_of(struct vfio_device *vfio)
{
	return container_of(vfio, struct vgpu, vfio);
}

struct share *vgpu_share(struct device *dev)
{
	struct vgpu *vgpu = dev_get_drvdata(dev);

	return &vgpu->share;
}

static void put16(struct vgpu *vgpu, int where, u16 value)
{
	vgpu->config[where] = value;
	vgpu->config[where + 1] = value >> 8;
}

/* The state after a reset. The subsystem is the type, so that the machine can tell which one it has. */
static void reset(struct vgpu *vgpu)
{
	memset(vgpu->config, 0, sizeof(vgpu->config));
	put16(vgpu, PCI_VENDOR_ID, PCI_VENDOR_ID_NVIDIA);
	put16(vgpu, PCI_DEVICE_ID, vgpu->share.card->model->device);
	put16(vgpu, PCI_SUBSYSTEM_VENDOR_ID, PCI_VENDOR_ID_NVIDIA);
	put16(vgpu, PCI_SUBSYSTEM_ID, vgpu->share.type->id);
	put16(vgpu, PCI_CLASS_DEVICE, PCI_CLASS_DISPLAY_VGA);
	vgpu->config[PCI_REVISION_ID] = 0xa1;
	vgpu->config[PCI_BASE_ADDRESS_0] = PCI_BASE_ADDRESS_SPACE_MEMORY;
	vgpu->config[PCI_BASE_ADDRESS_1] = PCI_BASE_ADDRESS_MEM_TYPE_64 | PCI_BASE_ADDRESS_MEM_PREFETCH;
}

/* The last three bytes of the UUID as red, green and blue. */
static u32 colour_of(const guid_t *uuid)
{
	return uuid->b[13] << 16 | uuid->b[14] << 8 | uuid->b[15];
}

static int vgpu_open(struct vfio_device *vfio)
{
	struct vgpu *vgpu = vgpu_of(vfio);
	struct mdev_device *mdev = to_mdev_device(vfio->dev);
	int ret = card_open(&vgpu->share);

	if (ret)
		return ret;
	vgpu->picture = picture_new(colour_of(&mdev->uuid), vgpu->share.type->name, vgpu->share.name);
	if (!vgpu->picture) {
		card_close(&vgpu->share);
		return -ENOMEM;
	}
	reset(vgpu);
	return 0;
}

/* By now nobody has the picture mapped: a mapping keeps the device open. */
static void vgpu_close(struct vfio_device *vfio)
{
	struct vgpu *vgpu = vgpu_of(vfio);

	picture_free(vgpu->picture);
	vgpu->picture = NULL;
	card_close(&vgpu->share);
}

/* Where a region lies here, and how long it is; NULL: there is none. */
static u8 *region(struct vgpu *vgpu, u64 index, u64 *size)
{
	switch (index) {
	case VFIO_PCI_CONFIG_REGION_INDEX:
		*size = CONFIG_SIZE;
		return vgpu->config;
	case VFIO_PCI_BAR0_REGION_INDEX:
		*size = REGISTERS_SIZE;
		return vgpu->registers;
	case VFIO_PCI_BAR1_REGION_INDEX:
	case PICTURE_REGION:
		*size = PICTURE_SPACE;
		return vgpu->picture;
	}
	*size = 0;
	return NULL;
}

static ssize_t vgpu_read(struct vfio_device *vfio, char __user *buf, size_t count, loff_t *position)
{
	struct vgpu *vgpu = vgpu_of(vfio);
	u64 at = *position & VFIO_PCI_OFFSET_MASK, size;
	const u8 *start = region(vgpu, VFIO_PCI_OFFSET_TO_INDEX(*position), &size);

	if (!start || at >= size)
		return -EINVAL;
	count = min_t(u64, count, size - at);
	if (start == vgpu->config && card_is_lost(vgpu->share.card))
		start = all_ones;
	if (copy_to_user(buf, start + at, count))
		return -EFAULT;
	*position += count;
	return count;
}

static int write_config(struct vgpu *vgpu, u64 at, const char __user *buf, size_t count)
{
	u8 bytes[CONFIG_SIZE];
	size_t i;

	if (copy_from_user(bytes, buf, count))
		return -EFAULT;
	for (i = 0; i < count; i++) {
		u8 mask = writable[at + i];

		vgpu->config[at + i] = (vgpu->config[at + i] & ~mask) | (bytes[i] & mask);
	}
	return 0;
}

static ssize_t vgpu_write(struct vfio_device *vfio, const char __user *buf, size_t count, loff_t *position)
{
	struct vgpu *vgpu = vgpu_of(vfio);
	u64 index = VFIO_PCI_OFFSET_TO_INDEX(*position), at = *position & VFIO_PCI_OFFSET_MASK, size;
	u8 *start = region(vgpu, index, &size);
	int ret = 0;

	if (!start || at >= size)
		return -EINVAL;
	count = min_t(u64, count, size - at);
	if (index == VFIO_PCI_CONFIG_REGION_INDEX)
		ret = write_config(vgpu, at, buf, count);
	else if (index != VFIO_PCI_BAR0_REGION_INDEX && copy_from_user(start + at, buf, count))
		ret = -EFAULT;
	if (ret)
		return ret;
	*position += count;
	return count;
}

static int vgpu_mmap(struct vfio_device *vfio, struct vm_area_struct *vma)
{
	u64 index = VFIO_PCI_OFFSET_TO_INDEX((u64)vma->vm_pgoff << PAGE_SHIFT);

	if (index != VFIO_PCI_BAR1_REGION_INDEX && index != PICTURE_REGION)
		return -EINVAL;
	return picture_mmap(vgpu_of(vfio)->picture, vma);
}

static long tell_device(void __user *arg)
{
	struct vfio_device_info info = { .argsz = 0 };
	const size_t size = offsetofend(struct vfio_device_info, num_irqs);

	if (copy_from_user(&info, arg, size))
		return -EFAULT;
	if (info.argsz < size)
		return -EINVAL;
	info.flags = VFIO_DEVICE_FLAGS_PCI | VFIO_DEVICE_FLAGS_RESET;
	info.num_regions = PICTURE_REGION + 1;
	info.num_irqs = VFIO_PCI_NUM_IRQS;
	return copy_to_user(arg, &info, size) ? -EFAULT : 0;
}

static long tell_region(struct vgpu *vgpu, void __user *arg)
{
	struct vfio_region_info info;
	const size_t least = offsetofend(struct vfio_region_info, offset);
	u64 size;

	if (copy_from_user(&info, arg, least))
		return -EFAULT;
	if (info.argsz < least || info.index > PICTURE_REGION)
		return -EINVAL;
	info.flags = 0;
	info.cap_offset = 0;
	info.offset = VFIO_PCI_INDEX_TO_OFFSET(info.index);
	if (region(vgpu, info.index, &size))
		info.flags = VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE;
	if (size == PICTURE_SPACE)
		info.flags |= VFIO_REGION_INFO_FLAG_MMAP;
	info.size = size;
	return copy_to_user(arg, &info, least) ? -EFAULT : 0;
}

/* It has no interrupts, and says so of each kind. */
static long tell_interrupt(void __user *arg)
{
	struct vfio_irq_info info;
	const size_t size = offsetofend(struct vfio_irq_info, count);

	if (copy_from_user(&info, arg, size))
		return -EFAULT;
	if (info.argsz < size || info.index >= VFIO_PCI_NUM_IRQS)
		return -EINVAL;
	info.flags = 0;
	info.count = 0;
	return copy_to_user(arg, &info, size) ? -EFAULT : 0;
}

static long vgpu_ioctl(struct vfio_device *vfio, unsigned int command, unsigned long arg)
{
	struct vgpu *vgpu = vgpu_of(vfio);

	switch (command) {
	case VFIO_DEVICE_GET_INFO:
		return tell_device((void __user *)arg);
	case VFIO_DEVICE_GET_REGION_INFO:
		return tell_region(vgpu, (void __user *)arg);
	case VFIO_DEVICE_GET_IRQ_INFO:
		return tell_interrupt((void __user *)arg);
	case VFIO_DEVICE_RESET:
		reset(vgpu);
		return 0;
	case VFIO_DEVICE_QUERY_GFX_PLANE:
		return picture_plane(arg, &vgpu->share, PICTURE_REGION, vgpu->config[PCI_COMMAND] & PCI_COMMAND_MASTER);
	}
	return -ENOTTY;
}

static const struct vfio_device_ops vgpu_ops = {
	.name = "nvidia-vgpu-vfio",
	.open_device = vgpu_open,
	.close_device = vgpu_close,
	.read = vgpu_read,
	.write = vgpu_write,
	.mmap = vgpu_mmap,
	.ioctl = vgpu_ioctl,
	.bind_iommufd = vfio_iommufd_emulated_bind,
	.unbind_iommufd = vfio_iommufd_emulated_unbind,
	.attach_ioas = vfio_iommufd_emulated_attach_ioas,
	.detach_ioas = vfio_iommufd_emulated_detach_ioas,
};

/* NVIDIA's driver answers EINVAL where a card has no room. */
int vgpu_probe(struct mdev_device *mdev)
{
	struct vgpu *vgpu;
	int ret = fault_create();

	if (ret)
		return ret;
	vgpu = vfio_alloc_device(vgpu, vfio, &mdev->dev, &vgpu_ops);
	if (IS_ERR(vgpu))
		return PTR_ERR(vgpu);
	vgpu->share.card = mediated_card(mdev->type);
	vgpu->share.function = mediated_function(mdev->type);
	vgpu->share.name = dev_name(&mdev->dev);
	ret = card_take(&vgpu->share, mediated_type(mdev->type));
	if (ret) {
		ret = ret == -ENOSPC ? -EINVAL : ret;
		goto no_share;
	}
	dev_set_drvdata(&mdev->dev, vgpu);
	ret = vfio_register_emulated_iommu_dev(&vgpu->vfio);
	if (ret)
		goto no_device;
	return 0;

no_device:
	card_give_back(&vgpu->share);
no_share:
	vfio_put_device(&vgpu->vfio);
	return ret;
}

/* Sleeps until nobody has it open; only then is its frame buffer free again. */
void vgpu_remove(struct mdev_device *mdev)
{
	struct vgpu *vgpu = dev_get_drvdata(&mdev->dev);

	vfio_unregister_group_dev(&vgpu->vfio);
	card_give_back(&vgpu->share);
	vfio_put_device(&vgpu->vfio);
}
