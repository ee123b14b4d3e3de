package main

import (
	"debug/macho"
	"fmt"
	"slices"
	"strings"
)

// checkMachO looks at a program for macOS that cannot be run here: its header and segments, what it loads, whether it is
// signed, and that nothing of Quern or of Linux is asked of macOS. Its linker has seen that libSystem has all other names.
func checkMachO(name, arch string) error {
	f, err := macho.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	want, ok := map[string]macho.Cpu{"amd64": macho.CpuAmd64, "arm64": macho.CpuArm64}[arch]
	if !ok {
		return fmt.Errorf("%s: macOS has no %s", name, arch)
	}
	if f.Cpu != want || f.Type != macho.TypeExec {
		return fmt.Errorf("%s is %v for %v, want a program for %v", name, f.Type, f.Cpu, want)
	}
	for _, segment := range []string{"__PAGEZERO", "__TEXT", "__LINKEDIT"} {
		if f.Segment(segment) == nil {
			return fmt.Errorf("%s has no segment %s", name, segment)
		}
	}
	if f.Section("__text") == nil {
		return fmt.Errorf("%s has no code", name)
	}
	libraries, err := f.ImportedLibraries()
	if err != nil {
		return err
	}
	if !slices.Contains(libraries, "/usr/lib/libSystem.B.dylib") {
		return fmt.Errorf("%s does not load libSystem but %q", name, libraries)
	}
	for _, l := range libraries { // those of every macOS
		if !strings.HasPrefix(l, "/usr/lib/") && !strings.HasPrefix(l, "/System/Library/Frameworks/") {
			return fmt.Errorf("%s loads %s, which macOS does not have", name, l)
		}
	}
	asks, err := f.ImportedSymbols()
	if err != nil {
		return err
	}
	for _, s := range asks {
		s = strings.TrimPrefix(s, "_")
		if strings.HasPrefix(s, "qn_") || strings.HasPrefix(s, "sys_") || s == "syscall" || s == "getauxval" {
			return fmt.Errorf("%s lacks %s", name, s)
		}
	}
	if len(asks) == 0 {
		return fmt.Errorf("%s asks libSystem for nothing", name)
	}
	// Arm's kernel runs no program without a signature, if only one that says so.
	const codeSignature = 0x1d
	signed := false
	for _, l := range f.Loads {
		raw := l.Raw()
		signed = signed || len(raw) >= 4 && f.ByteOrder.Uint32(raw) == codeSignature
	}
	if arch == "arm64" && !signed {
		return fmt.Errorf("%s is not signed", name)
	}
	fmt.Printf("%s: %v, %d symbols of %s\n", name, f.Cpu, len(asks), strings.Join(libraries, ", "))
	return nil
}
