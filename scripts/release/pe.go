package main

import (
	"bytes"
	"debug/pe"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
)

// ofWindows are the libraries that every Windows 10 and later has: its kernel and the C library that is a part of it.
var ofWindows = regexp.MustCompile(`^(kernel32|api-ms-win-core-synch-l1-2-0|api-ms-win-crt-[a-z]+-l1-1-0)\.dll$`)

// checkPE returns an error unless Windows of an architecture would load a program: what it is, that it can be loaded anywhere, and
// that it asks for nothing but what every Windows has.
func checkPE(name, arch string) error {
	f, err := pe.Open(name)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer f.Close()
	if err := loadable(f, arch); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	asked, err := asks(f)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	count := 0
	for _, names := range asked {
		count += len(names)
	}
	fmt.Printf("%s: Windows on %s, %d symbols of %s\n", name, arch, count, strings.Join(slices.Sorted(maps.Keys(asked)), ", "))
	return nil
}

// loadable looks at the headers.
func loadable(f *pe.File, arch string) error {
	want, ok := map[string]uint16{"amd64": pe.IMAGE_FILE_MACHINE_AMD64, "arm64": pe.IMAGE_FILE_MACHINE_ARM64}[arch]
	if !ok {
		return fmt.Errorf("there is no Windows for %s", arch)
	}
	h, ok := f.OptionalHeader.(*pe.OptionalHeader64)
	if !ok || f.Machine != want {
		return fmt.Errorf("it is for processor %#x, want a program of 64 bits for %#x", f.Machine, want)
	}
	if of := f.Characteristics & (pe.IMAGE_FILE_EXECUTABLE_IMAGE | pe.IMAGE_FILE_DLL); of != pe.IMAGE_FILE_EXECUTABLE_IMAGE {
		return fmt.Errorf("it is no program but has characteristics %#x", f.Characteristics)
	}
	if h.Subsystem != pe.IMAGE_SUBSYSTEM_WINDOWS_CUI {
		return fmt.Errorf("it is for subsystem %d, want the console's (%d)", h.Subsystem, pe.IMAGE_SUBSYSTEM_WINDOWS_CUI)
	}
	if v := max(h.MajorOperatingSystemVersion, h.MajorSubsystemVersion); v > 10 {
		return fmt.Errorf("it wants Windows %d, where 10 is the oldest", v)
	}
	// Windows on Arm loads nothing that has to be at one address.
	const anywhere = pe.IMAGE_DLLCHARACTERISTICS_DYNAMIC_BASE | pe.IMAGE_DLLCHARACTERISTICS_NX_COMPAT
	if h.DllCharacteristics&anywhere != anywhere || f.Characteristics&pe.IMAGE_FILE_RELOCS_STRIPPED != 0 ||
		h.DataDirectory[pe.IMAGE_DIRECTORY_ENTRY_BASERELOC].Size == 0 {
		return fmt.Errorf("not to be loaded anywhere, with data that is no code (%#x, %#x)", h.DllCharacteristics, f.Characteristics)
	}
	begins := false
	for _, s := range f.Sections {
		code, written := s.Characteristics&pe.IMAGE_SCN_MEM_EXECUTE != 0, s.Characteristics&pe.IMAGE_SCN_MEM_WRITE != 0
		if code && written {
			return fmt.Errorf("section %s is code that may be written", s.Name)
		}
		begins = begins || code && h.AddressOfEntryPoint-s.VirtualAddress < s.VirtualSize
	}
	if !begins {
		return fmt.Errorf("it begins at %#x, where it has no code", h.AddressOfEntryPoint)
	}
	return nil
}

// asks returns the names that a program asks for, by library.
func asks(f *pe.File) (map[string][]string, error) {
	names, err := f.ImportedSymbols()
	if err != nil {
		return nil, err
	}
	asked := map[string][]string{}
	for _, of := range names {
		name, library, _ := strings.Cut(of, ":")
		library = strings.ToLower(library)
		if !ofWindows.MatchString(library) {
			return nil, fmt.Errorf("it asks %s for %s, which not every Windows has", library, name)
		}
		asked[library] = append(asked[library], name)
	}
	if len(asked["kernel32.dll"]) == 0 {
		return nil, fmt.Errorf("it asks Windows for nothing")
	}
	return asked, nil
}

// undate takes out of a program for Windows when it was linked, which Zig's linker writes into it, and what that counts in: the same
// sources give the same bytes.
func undate(name string) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	f, err := pe.NewFile(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	h, ok := f.OptionalHeader.(*pe.OptionalHeader64)
	if !ok {
		return fmt.Errorf("%s: no program of 64 bits", name)
	}
	le := binary.LittleEndian
	// NewFile has read what these point to.
	clear(data[le.Uint32(data[60:])+8:][:4])
	debug := h.DataDirectory[pe.IMAGE_DIRECTORY_ENTRY_DEBUG]
	for _, s := range f.Sections {
		if debug.Size == 0 || debug.VirtualAddress-s.VirtualAddress >= s.Size {
			continue
		}
		// Each entry has a time at 4, and at 16 the size of what it is of, at 24 where that is in the file.
		const entry = 28
		from := uint64(s.Offset + debug.VirtualAddress - s.VirtualAddress)
		for end := from + uint64(debug.Size); from+entry <= min(end, uint64(len(data))); from += entry {
			e := data[from : from+entry]
			clear(e[4:8])
			size, at := uint64(le.Uint32(e[16:])), uint64(le.Uint32(e[24:]))
			if size >= 20 && at+size <= uint64(len(data)) && string(data[at:at+4]) == "RSDS" {
				clear(data[at+4 : at+20]) // a hash of the whole file
			}
		}
	}
	return os.WriteFile(name, data, 0o755)
}
