#include "textflag.h"

TEXT proc_pid_rusage_trampoline<>(SB),NOSPLIT,$0-0
	JMP libc_proc_pid_rusage(SB)

GLOBL ·proc_pid_rusage_trampoline_addr(SB), RODATA, $8
DATA ·proc_pid_rusage_trampoline_addr(SB)/8, $proc_pid_rusage_trampoline<>(SB)

TEXT pthread_set_qos_class_self_np_trampoline<>(SB),NOSPLIT,$0-0
	JMP libc_pthread_set_qos_class_self_np(SB)

GLOBL ·pthread_set_qos_class_self_np_trampoline_addr(SB), RODATA, $8
DATA ·pthread_set_qos_class_self_np_trampoline_addr(SB)/8, $pthread_set_qos_class_self_np_trampoline<>(SB)
