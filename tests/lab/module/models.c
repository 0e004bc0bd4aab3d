// SPDX-License-Identifier: GPL-2.0
/* What is known of the boards. Names, numbers and sizes are those that the vendor's driver prints. */

#include <linux/array_size.h>
#include <linux/string.h>

#include "nvidia.h"

#define DESKTOP_LARGE "7680x4320"
#define DESKTOP_SMALL "5120x2880"
#define APPLICATION "1280x1024"
#define COMPUTE "4096x2400"

#define Q(number, title, gib, count, size) { number, title, (gib) * 1024, count, 4, 60, size, true }
#define B(number, title, gib, count) { number, title, (gib) * 1024, count, 4, 45, DESKTOP_SMALL, true }
#define A(number, title, gib, count) { number, title, (gib) * 1024, count, 1, 60, APPLICATION, false }
#define C(number, title, gib, count) { number, title, (gib) * 1024, count, 1, 60, COMPUTE, false }

static const struct vgpu_type t4[] = {
	B(222, "GRID T4-1B", 1, 16),
	B(223, "GRID T4-2B", 2, 8),
	A(225, "GRID T4-1A", 1, 16),
	A(227, "GRID T4-4A", 4, 4),
	Q(230, "GRID T4-1Q", 1, 16, DESKTOP_SMALL),
	Q(231, "GRID T4-2Q", 2, 8, DESKTOP_LARGE),
	Q(232, "GRID T4-4Q", 4, 4, DESKTOP_LARGE),
	Q(233, "GRID T4-8Q", 8, 2, DESKTOP_LARGE),
	Q(234, "GRID T4-16Q", 16, 1, DESKTOP_LARGE),
	C(319, "GRID T4-4C", 4, 4),
	C(320, "GRID T4-8C", 8, 2),
	C(321, "GRID T4-16C", 16, 1),
};

static const struct vgpu_type a40[] = {
	B(555, "NVIDIA A40-1B", 1, 32),
	B(556, "NVIDIA A40-2B", 2, 24),
	Q(557, "NVIDIA A40-1Q", 1, 32, DESKTOP_SMALL),
	Q(558, "NVIDIA A40-2Q", 2, 24, DESKTOP_LARGE),
	Q(560, "NVIDIA A40-4Q", 4, 12, DESKTOP_LARGE),
	Q(561, "NVIDIA A40-6Q", 6, 8, DESKTOP_LARGE),
	Q(562, "NVIDIA A40-8Q", 8, 6, DESKTOP_LARGE),
	Q(563, "NVIDIA A40-12Q", 12, 4, DESKTOP_LARGE),
	Q(564, "NVIDIA A40-16Q", 16, 3, DESKTOP_LARGE),
	Q(565, "NVIDIA A40-24Q", 24, 2, DESKTOP_LARGE),
	Q(566, "NVIDIA A40-48Q", 48, 1, DESKTOP_LARGE),
	A(570, "NVIDIA A40-4A", 4, 12),
	C(581, "NVIDIA A40-4C", 4, 12),
	C(583, "NVIDIA A40-8C", 8, 6),
};

static const struct vgpu_type l40s[] = {
	B(1145, "NVIDIA L40S-1B", 1, 32),
	B(1146, "NVIDIA L40S-2B", 2, 24),
	Q(1147, "NVIDIA L40S-1Q", 1, 32, DESKTOP_SMALL),
	Q(1148, "NVIDIA L40S-2Q", 2, 24, DESKTOP_LARGE),
	Q(1149, "NVIDIA L40S-3Q", 3, 16, DESKTOP_LARGE),
	Q(1150, "NVIDIA L40S-4Q", 4, 12, DESKTOP_LARGE),
	Q(1151, "NVIDIA L40S-6Q", 6, 8, DESKTOP_LARGE),
	Q(1152, "NVIDIA L40S-8Q", 8, 6, DESKTOP_LARGE),
	Q(1153, "NVIDIA L40S-12Q", 12, 4, DESKTOP_LARGE),
	Q(1154, "NVIDIA L40S-16Q", 16, 3, DESKTOP_LARGE),
	Q(1155, "NVIDIA L40S-24Q", 24, 2, DESKTOP_LARGE),
	Q(1156, "NVIDIA L40S-48Q", 48, 1, DESKTOP_LARGE),
	A(1157, "NVIDIA L40S-1A", 1, 32),
	A(1160, "NVIDIA L40S-4A", 4, 12),
	A(1162, "NVIDIA L40S-8A", 8, 6),
};

static const struct model models[] = {
	{ "v100", "Tesla V100-PCIE-32GB", 0x1db6, 0x124a, WHOLE_ONLY, 32 * 1024, NULL, 0 },
	{ "t4", "Tesla T4", 0x1eb8, 0x12a2, MDEV_ON_PF, 16 * 1024, t4, ARRAY_SIZE(t4) },
	{ "a40", "NVIDIA A40", 0x2235, 0x145a, MDEV_ON_VFS, 48 * 1024, a40, ARRAY_SIZE(a40) },
	{ "l40s", "NVIDIA L40S", 0x26b9, 0x1851, VFIO_ON_VFS, 48 * 1024, l40s, ARRAY_SIZE(l40s) },
};

const struct model *model_named(const char *key, size_t length)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(models); i++)
		if (strlen(models[i].key) == length && !strncmp(models[i].key, key, length))
			return &models[i];
	return NULL;
}

const struct vgpu_type *model_type(const struct model *model, u32 id)
{
	size_t i;

	for (i = 0; i < model->count; i++)
		if (model->types[i].id == id)
			return &model->types[i];
	return NULL;
}
