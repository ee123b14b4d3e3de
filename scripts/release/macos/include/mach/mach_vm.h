/* mach_vm.h - what Prometheus's client asks of Apple's header of this name, which Zig does not have. */
#ifndef QN_MACH_VM_H
#define QN_MACH_VM_H

#include <mach/mach_types.h>

kern_return_t mach_vm_region(vm_map_t task, mach_vm_address_t *address, mach_vm_size_t *size, vm_region_flavor_t flavor,
			     vm_region_info_t info, mach_msg_type_number_t *count, mach_port_t *name);

#endif
