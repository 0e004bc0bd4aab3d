// SPDX-License-Identifier: GPL-2.0
/* What a machine reads, writes and maps of a mediated device: config space, an empty register BAR, and the picture. */

#include <linux/mm.h>
#include <linux/uaccess.h>
#include <linux/vfio_pci_core.h>

#include "vgpu.h"

/* Which bits of the header a machine may write: command, interrupt line, and of the BARs those above their size. */
static const u8 writable[CONFIG_SIZE] = {
	[PCI_COMMAND] = PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER,
	[PCI_COMMAND + 1] = PCI_COMMAND_INTX_DISABLE >> 8,
	[PCI_BASE_ADDRESS_0 + 1] = 0xf0, 0xff, 0xff,
	[PCI_BASE_ADDRESS_1 + 2] = 0xe0, 0xff, 0xff, 0xff, 0xff, 0xff,
	[PCI_INTERRUPT_LINE] = 0xff,
};

static const u8 all_ones[CONFIG_SIZE] = { [0 ... CONFIG_SIZE - 1] = 0xff };

static void put16(struct vgpu *vgpu, int where, u16 value)
{
	vgpu->config[where] = value;
	vgpu->config[where + 1] = value >> 8;
}

/* The state after a reset. The subsystem is the type, so that the machine can tell which one it has. */
void vgpu_reset(struct vgpu *vgpu)
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

ssize_t vgpu_read(struct vfio_device *vfio, char __user *buf, size_t count, loff_t *position)
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

ssize_t vgpu_write(struct vfio_device *vfio, const char __user *buf, size_t count, loff_t *position)
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

int vgpu_mmap(struct vfio_device *vfio, struct vm_area_struct *vma)
{
	u64 index = VFIO_PCI_OFFSET_TO_INDEX((u64)vma->vm_pgoff << PAGE_SHIFT);

	if (index != VFIO_PCI_BAR1_REGION_INDEX && index != PICTURE_REGION)
		return -EINVAL;
	return picture_mmap(vgpu_of(vfio)->picture, vma);
}

long vgpu_tell_region(struct vgpu *vgpu, void __user *arg)
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
