#!/usr/bin/env bash
# Tests what needs several NUMA nodes, in a virtual machine with two: where pages of weights, keys and values lie. The
# machine is emulated, which works everywhere and says nothing about speed; QUERN_VM_ACCEL=kvm is faster where it works.
#
#	scripts/test_vm.sh
#
# It needs Debian's qemu-system-x86, busybox-static and cpio, and a kernel: QUERN_VM_KERNEL, one of /boot, or that of the
# package linux-image-amd64, which it downloads into build/vm and does not install.
set -euo pipefail
cd "$(dirname "$0")/.."
vm=${BUILD:-build}/vm
seconds=${QUERN_VM_SECONDS:-300}
mkdir -p "$vm"

missing=()
command -v qemu-system-x86_64 >/dev/null || missing+=(qemu-system-x86)
command -v busybox >/dev/null && [[ $(LC_ALL=C file -Lb "$(command -v busybox)" 2>/dev/null || readelf -l "$(command -v busybox)") != *INTERP* ]] || missing+=(busybox-static)
command -v cpio >/dev/null || missing+=(cpio)
if ((${#missing[@]})); then
	echo "test-vm: install what Debian calls: ${missing[*]}" >&2
	exit 1
fi

# kernel: its path. That of a package is unpacked from it.
kernel() {
	local found package
	for found in ${QUERN_VM_KERNEL:-} /boot/vmlinuz-* "$vm"/boot/vmlinuz-*; do
		if [[ -r $found ]]; then
			echo "$found"
			return
		fi
	done
	package=$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
	(cd "$vm" && apt-get download "$package" >&2 && dpkg-deb --fsys-tarfile "$package"_*.deb | tar -x --wildcards './boot/vmlinuz-*' && rm -f "$package"_*.deb)
	echo "$vm"/boot/vmlinuz-*
}
vmlinuz=$(kernel)

for package in machine mem model; do
	scripts/go.sh test -c -ldflags '-linkmode external -extldflags -static' -o "$vm/$package.test" "./go/$package"
done

root=$vm/root
rm -rf "$root"
mkdir -p "$root"/{bin,dev,proc,sys,tmp}
install -m 755 "$(command -v busybox)" "$root/bin/busybox"
install -m 755 "$vm"/*.test "$root/bin"
cat >"$root/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sys /sys
/bin/busybox mount -t devtmpfs dev /dev
/bin/busybox mount -t tmpfs tmp /tmp
export QUERN_TEST_NODES=2 TMPDIR=/tmp
cd /tmp
/bin/machine.test -test.run TestIsolate -test.v && /bin/mem.test -test.run 'TestPlace|TestInterleave|TestMayPlace' -test.v &&
	/bin/model.test -test.run TestOnNodes -test.v && echo "test-vm: all passed"
/bin/busybox poweroff -f
INIT
chmod 755 "$root/init"
(cd "$root" && find . | cpio -o -H newc --quiet) | gzip -1 >"$vm/initrd.gz"

accel=(-accel "tcg,thread=multi" -cpu max)
[[ ${QUERN_VM_ACCEL:-} != kvm ]] || accel=(-accel kvm -cpu host)
log=$vm/log
timeout "$seconds" qemu-system-x86_64 "${accel[@]}" -smp 2,sockets=2,cores=1 -m 1024 \
	-object memory-backend-ram,size=512M,id=m0 -object memory-backend-ram,size=512M,id=m1 \
	-numa node,cpus=0,memdev=m0,nodeid=0 -numa node,cpus=1,memdev=m1,nodeid=1 -numa dist,src=0,dst=1,val=21 \
	-kernel "$vmlinuz" -initrd "$vm/initrd.gz" -append "console=ttyS0 panic=-1 quiet" \
	-nographic -no-reboot -nodefaults -serial stdio </dev/null 2>&1 | tr -d '\r' | tee "$log"
grep -q "^test-vm: all passed$" "$log"
