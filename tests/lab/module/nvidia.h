/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A lab's stand-in for the NVIDIA driver: its nouns, and who answers for what.
 *
 * A card is a physical function that wears the ids of a model. A share is what a machine gets of it: a mediated
 * device, or a virtual function that bears a type. Everything about a card that changes is guarded by its one mutex.
 */
#ifndef LAB_NVIDIA_H
#define LAB_NVIDIA_H

#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/types.h>
#include <linux/uuid.h>

/* models.c: what is known of the boards and of the types that they can be cut into */

struct vgpu_type {
	u32 id;
	const char *name;
	u32 mib;	/* frame buffer */
	u32 most;	/* how many of this size on one card */
	u32 heads;
	u32 frames;	/* a second, at most */
	const char *resolution;
	bool screen;	/* a type for desktops has a picture */
};

enum way {
	WHOLE_ONLY,	/* cut into nothing */
	MDEV_ON_PF,	/* mediated devices on the card itself */
	MDEV_ON_VFS,	/* one mediated device on each virtual function */
	VFIO_ON_VFS,	/* the vendor's own interface on each virtual function, no mediated devices */
};

struct model {
	const char *key;	/* as in the parameter "cards" */
	const char *name;
	u16 device;
	u16 subsystem;
	enum way way;
	u32 mib;
	const struct vgpu_type *types;
	size_t count;
};

const struct model *model_named(const char *key, size_t length);
const struct vgpu_type *model_type(const struct model *model, u32 id);

/* card.c: who has how much of a card */

struct proc_dir_entry;

struct card {
	const struct model *model;
	struct pci_dev *pdev;	/* the physical function */
	struct mutex lock;
	struct list_head shares;
	bool lost;		/* written under the lock, read anywhere */
	bool unbind_locked;	/* of proc.c, for nobody else */
	struct proc_dir_entry *proc;
};

#define PARAMS_SIZE 256

struct share {
	struct list_head link;
	struct card *card;
	struct pci_dev *function;	/* the one it is made on */
	const char *name;		/* a UUID, or the function's address */
	const struct vgpu_type *type;	/* NULL: there is no share */
	u32 start;			/* where in the frame buffer it lies, in MiB */
	bool open;
	char params[PARAMS_SIZE];	/* what was written for the plugin */
};

void card_init(struct card *card, struct pci_dev *pdev, const struct model *model);
bool card_is_lost(const struct card *card);
u32 card_room(struct card *card, struct pci_dev *function, const struct vgpu_type *type);
int card_take(struct share *share, const struct vgpu_type *type);
int card_give_back(struct share *share);
int card_open(struct share *share);
void card_close(struct share *share);
ssize_t card_read_params(struct share *share, char *buf);
ssize_t card_write_params(struct share *share, const char *buf, size_t count);

/* dressing.c: which functions wear what. card_of() is good for as long as the function has a driver or a lab folder. */

struct dress;

int dressing_start(const char *wanted);
void dressing_stop(void);
struct card *card_of(struct pci_dev *function);

/* config_space.c: what a dressed function says in config space */

struct dressed_bus;

struct header {
	u8 bytes[PCI_STD_HEADER_SIZEOF];
	u64 shown;		/* one bit a byte: this one is worn, not the device's own */
	const struct card *card;
	bool virtual;
};

int config_space_wear(struct pci_dev *function, struct header *header);
void config_space_take_off(struct pci_dev *function);

/* main.c */

extern struct pci_driver nvidia_driver;

/* mediated.c: a function as a parent of mediated devices */

int mediated_start(void);
void mediated_stop(void);
int mediated_parent_add(struct pci_dev *function, struct card *card);
void mediated_parent_remove(struct pci_dev *function);

struct mdev_device;
struct mdev_type;
const struct vgpu_type *mediated_type(struct mdev_type *type);
struct card *mediated_card(struct mdev_type *type);
struct pci_dev *mediated_function(struct mdev_type *type);

/* vgpu.c: a mediated device; vgpu.h has what it consists of */

int vgpu_probe(struct mdev_device *mdev);
void vgpu_remove(struct mdev_device *mdev);
struct share *vgpu_share(struct device *dev);

/* picture.c: what a share shows. One page-aligned block, which a machine may draw in, too. */

#define PICTURE_SPACE 0x200000UL	/* a power of two, for it is a BAR */

struct vm_area_struct;

void *picture_new(u32 colour, const char *type, const char *name);
void picture_free(void *picture);
int picture_mmap(void *picture, struct vm_area_struct *vma);
long picture_plane(unsigned long arg, const struct share *share, u32 region, bool driven);

/* function.c: a virtual function with the vendor's own interface */

int function_add(struct pci_dev *function, struct card *card);
void function_remove(struct pci_dev *function);

/* vfs.c: the virtual functions, on and off */

int vfs_set(struct pci_dev *pdev, u32 count);

/* lab.c: the folder "lab" of a card */

int lab_add(struct card *card);
void lab_remove(struct card *card);

/* proc.c: what the vendor's driver shows under /proc */

int proc_start(void);
void proc_stop(void);
int proc_add(struct card *card);
void proc_drop(struct card *card);

/* faults.c: what goes wrong on demand */

int fault_create(void);
int fault_open(void);
bool picture_waits(void);

#endif
