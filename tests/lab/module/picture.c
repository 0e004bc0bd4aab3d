// SPDX-License-Identifier: GPL-2.0
/* What a share shows: a field of its own colour with its type and name in white, so that a test knows whose it is. */

#include <linux/font.h>
#include <linux/mm.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/vfio.h>
#include <linux/vmalloc.h>
#include <drm/drm_fourcc.h>

#include "nvidia.h"

#define WIDTH 800
#define HEIGHT 600
#define STRIDE (WIDTH * sizeof(u32))
#define WHITE 0xffffff
#define MARGIN 40
#define SCALE 2		/* pixels for each of the font's, so that it is read on a small screen */

static_assert(HEIGHT * STRIDE <= PICTURE_SPACE);

static void draw_letter(u32 *pixels, const struct font_desc *font, u8 letter, u32 left, u32 top)
{
	const u8 *rows = (const u8 *)font->data + letter * font->height;
	u32 x, y;

	for (y = 0; y < font->height * SCALE; y++)
		for (x = 0; x < font->width * SCALE; x++)
			if (rows[y / SCALE] & (0x80 >> (x / SCALE)))
				pixels[(top + y) * WIDTH + left + x] = WHITE;
}

static void draw_line(u32 *pixels, const char *text, u32 top)
{
	const struct font_desc *font = find_font("VGA8x16");
	u32 left = MARGIN;

	if (!font)
		return;
	for (; *text && left + font->width * SCALE <= WIDTH; text++, left += font->width * SCALE)
		draw_letter(pixels, font, *text, left, top);
}

/* The colour is 0xRRGGBB. NULL where there is no memory. */
void *picture_new(u32 colour, const char *type, const char *name)
{
	u32 *pixels = vmalloc_user(PICTURE_SPACE);

	if (!pixels)
		return NULL;
	memset32(pixels, colour, WIDTH * HEIGHT);
	draw_line(pixels, type, MARGIN);
	draw_line(pixels, name, 2 * MARGIN);
	return pixels;
}

void picture_free(void *picture)
{
	vfree(picture);
}

/* Which region of the device is meant stands in the upper bits of the offset; that is the caller's to look at. */
int picture_mmap(void *picture, struct vm_area_struct *vma)
{
	unsigned long pages = PICTURE_SPACE >> PAGE_SHIFT;

	if (!(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	return remap_vmalloc_range(vma, picture, vma->vm_pgoff & (pages - 1));
}

/*
 * VFIO_DEVICE_QUERY_GFX_PLANE. The region is the one that a console may map; driven: a driver of the machine's is at
 * work. Without a picture yet the answer is an empty plane, and QEMU goes on showing the boot.
 */
long picture_plane(unsigned long arg, const struct share *share, u32 region, bool driven)
{
	struct vfio_device_gfx_plane_info plane;
	const size_t size = offsetofend(struct vfio_device_gfx_plane_info, region_index);

	if (!share->type->screen)
		return -ENOTTY;
	if (copy_from_user(&plane, (void __user *)arg, size))
		return -EFAULT;
	if (plane.argsz < size)
		return -EINVAL;
	if (plane.flags == (VFIO_GFX_PLANE_TYPE_PROBE | VFIO_GFX_PLANE_TYPE_REGION))
		return 0;
	if (plane.flags != VFIO_GFX_PLANE_TYPE_REGION)
		return -EINVAL;
	memset_startat(&plane, 0, drm_format);
	if (driven || !picture_waits()) {
		plane.drm_format = DRM_FORMAT_XRGB8888;
		plane.width = WIDTH;
		plane.height = HEIGHT;
		plane.stride = STRIDE;
		plane.size = HEIGHT * STRIDE;
		plane.region_index = region;
	}
	return copy_to_user((void __user *)arg, &plane, size) ? -EFAULT : 0;
}
