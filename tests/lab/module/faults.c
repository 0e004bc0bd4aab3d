// SPDX-License-Identifier: GPL-2.0
/* What goes wrong on demand, for every way of sharing alike. All of it can be changed while the module is in use. */

#include <linux/delay.h>
#include <linux/err.h>
#include <linux/moduleparam.h>

#include "nvidia.h"

static uint fail_create;
module_param(fail_create, uint, 0644);
MODULE_PARM_DESC(fail_create, "Error number with which every creation of a share is refused; 0: none is");

static uint fail_open;
module_param(fail_open, uint, 0644);
MODULE_PARM_DESC(fail_open, "Error number with which every opening of a share is refused; 0: none is");

static uint slow_create_ms;
module_param(slow_create_ms, uint, 0644);
MODULE_PARM_DESC(slow_create_ms, "How many milliseconds a creation takes longer; no signal shortens it");

static bool wait_for_driver;
module_param(wait_for_driver, bool, 0644);
MODULE_PARM_DESC(wait_for_driver, "A share shows its picture only once the machine has turned bus mastering on");

static int refusal(uint number)
{
	return number && number <= MAX_ERRNO ? -(int)number : 0;
}

/* Sleeps; the caller holds no lock of a card, so its neighbours need not wait. */
int fault_create(void)
{
	uint delay = READ_ONCE(slow_create_ms);

	if (delay)
		msleep(delay);
	return refusal(READ_ONCE(fail_create));
}

int fault_open(void)
{
	return refusal(READ_ONCE(fail_open));
}

bool picture_waits(void)
{
	return READ_ONCE(wait_for_driver);
}
