/* SPDX-License-Identifier: GPL-2.0 */
/* A mediated device as a machine sees it: a display controller without interrupts. Its second BAR is its picture. */
#ifndef LAB_VGPU_H
#define LAB_VGPU_H

#include <linux/vfio.h>

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

static inline struct vgpu *vgpu_of(struct vfio_device *vfio)
{
	return container_of(vfio, struct vgpu, vfio);
}

/* vgpu_regions.c */

void vgpu_reset(struct vgpu *vgpu);
long vgpu_tell_region(struct vgpu *vgpu, void __user *arg);
ssize_t vgpu_read(struct vfio_device *vfio, char __user *buf, size_t count, loff_t *position);
ssize_t vgpu_write(struct vfio_device *vfio, const char __user *buf, size_t count, loff_t *position);
int vgpu_mmap(struct vfio_device *vfio, struct vm_area_struct *vma);

#endif
