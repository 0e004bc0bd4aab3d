// SPDX-License-Identifier: GPL-2.0
/*
 * A mediated device's life: made, opened, asked what it is, closed, taken away.
 *
 * It never touches the machine's memory, so nothing is pinned and there is no dma_unmap.
 */

#include <linux/mdev.h>
#include <linux/uaccess.h>
#include <linux/vfio.h>

#include "nvidia.h"
#include "vgpu.h"

struct share *vgpu_share(struct device *dev)
{
	struct vgpu *vgpu = dev_get_drvdata(dev);

	return &vgpu->share;
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
	vgpu_reset(vgpu);
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
		return vgpu_tell_region(vgpu, (void __user *)arg);
	case VFIO_DEVICE_GET_IRQ_INFO:
		return tell_interrupt((void __user *)arg);
	case VFIO_DEVICE_RESET:
		vgpu_reset(vgpu);
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
