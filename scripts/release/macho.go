package main

import (
	"bytes"
	"crypto/sha256"
	"debug/macho"
	"encoding/binary"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"
)

// oldestMacOS is the version that a program for macOS has to run on: what Go asks for (12.0.0).
const oldestMacOS = 12 << 16

// Load commands, of mach-o/loader.h.
const (
	codeSignature = 0x1d
	buildVersion  = 0x32
	dyldInfo      = 0x80000022
)

// A machO is a program for macOS, which cannot be run here and so is looked at.
type machO struct {
	*macho.File
	name, arch string
	data       []byte
	stubs      stubs
}

// checkMachO returns an error unless macOS of an architecture would load a program: what it is, the macOS that it wants, the
// libraries that it loads, that these have every name that it asks of them, and that its signature is that of its bytes.
func checkMachO(name, arch string, s stubs) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	f, err := macho.NewFile(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	p := &machO{f, name, arch, data, s}
	for _, look := range []func() error{p.header, p.version, p.imports, p.addresses, p.signature} {
		if err := look(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	libraries, err := f.ImportedLibraries()
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	fmt.Printf("%s: %v, macOS %d, %d symbols of %s\n", name, f.Cpu, oldestMacOS>>16, f.Dysymtab.Nundefsym, strings.Join(libraries, ", "))
	return nil
}

func (p *machO) header() error {
	want, ok := map[string]macho.Cpu{"amd64": macho.CpuAmd64, "arm64": macho.CpuArm64}[p.arch]
	if !ok {
		return fmt.Errorf("macOS has no %s", p.arch)
	}
	if p.Cpu != want || p.Type != macho.TypeExec {
		return fmt.Errorf("%v for %v, want a program for %v", p.Type, p.Cpu, want)
	}
	// Arm's kernel loads nothing that has to be at one address.
	if p.arch == "arm64" && p.Flags&macho.FlagPIE == 0 {
		return fmt.Errorf("not to be loaded anywhere (PIE)")
	}
	for _, segment := range []string{"__PAGEZERO", "__TEXT", "__LINKEDIT"} {
		if p.Segment(segment) == nil {
			return fmt.Errorf("no segment %s", segment)
		}
	}
	if p.Section("__text") == nil {
		return fmt.Errorf("no code")
	}
	return nil
}

// command returns the load command of a kind; nil: there is none that has so many bytes.
func (p *machO) command(kind uint32, bytes int) []byte {
	for _, l := range p.Loads {
		if raw := l.Raw(); len(raw) >= bytes && p.ByteOrder.Uint32(raw) == kind {
			return raw
		}
	}
	return nil
}

func (p *machO) version() error {
	raw := p.command(buildVersion, 16)
	if raw == nil {
		return fmt.Errorf("it does not say for which macOS it is")
	}
	const macOS = 1
	if system, oldest := p.ByteOrder.Uint32(raw[8:]), p.ByteOrder.Uint32(raw[12:]); system != macOS || oldest != oldestMacOS {
		return fmt.Errorf("it is for version %#x of platform %d, want %#x of macOS (%d)", oldest, system, oldestMacOS, macOS)
	}
	return nil
}

// imports looks up every name that the program asks for in the library that it asks.
func (p *machO) imports() error {
	libraries, err := p.ImportedLibraries()
	if err != nil {
		return err
	}
	if !slices.Contains(libraries, "/usr/lib/libSystem.B.dylib") {
		return fmt.Errorf("it does not load libSystem but %q", libraries)
	}
	for _, l := range libraries {
		if p.stubs[l] == nil {
			return fmt.Errorf("it loads %s, of which no stub says that macOS has it", l)
		}
	}
	raw := p.command(dyldInfo, 48)
	if raw == nil {
		return fmt.Errorf("it does not say what is bound when it is loaded")
	}
	asked := 0
	for _, at := range []int{16, 32} { // at once, and at the first call
		off, size := uint64(p.ByteOrder.Uint32(raw[at:])), uint64(p.ByteOrder.Uint32(raw[at+4:]))
		if off+size > uint64(len(p.data)) {
			return fmt.Errorf("what is bound is from %d on, of %d bytes, in %d", off, size, len(p.data))
		}
		for b, err := range binds(p.data[off : off+size]) {
			switch {
			case err != nil:
				return err
			case b.library < 1 || b.library > len(libraries):
				return fmt.Errorf("it asks library %d of %d for %s", b.library, len(libraries), b.name)
			case !p.stubs[libraries[b.library-1]].has(b.name, p.arch):
				return fmt.Errorf("it asks %s for %s, which that does not have", libraries[b.library-1], b.name)
			}
			asked++
		}
	}
	if asked == 0 {
		return fmt.Errorf("it asks macOS for nothing")
	}
	names, err := p.ImportedSymbols()
	if err != nil {
		return err
	}
	for _, name := range names {
		if !slices.ContainsFunc(libraries, func(l string) bool { return p.stubs[l].has(name, p.arch) }) {
			return fmt.Errorf("no library that it loads has %s", name)
		}
	}
	return nil
}

// A bind is a name of a library, by its place among those that the program loads.
type bind struct {
	library int
	name    string
}

// binds goes through the opcodes by which macOS binds names (BIND_OPCODE_ of mach-o/loader.h), without their addresses.
func binds(code []byte) iter.Seq2[bind, error] {
	return func(yield func(bind, error) bool) {
		var b bind
		skip := func() (ok bool) {
			code, ok = afterNumber(code)
			return ok
		}
		for len(code) > 0 {
			op, low := code[0]&0xf0, code[0]&0x0f
			code = code[1:]
			ok := true
			switch op {
			case 0x00, 0x50: // the end, of one name or of all; a kind
			case 0x10:
				b.library = int(low)
			case 0x20:
				n, size := binary.Uvarint(code)
				if ok = size > 0 && n < 1<<16; ok {
					b.library, code = int(n), code[size:]
				}
			case 0x30: // the program itself, or any library
				b.library = 0
			case 0x40:
				var name []byte
				name, code, ok = bytes.Cut(code, []byte{0})
				b.name = string(name)
			case 0x60, 0x70, 0x80:
				ok = skip()
			case 0x90, 0xb0:
				if !yield(b, nil) {
					return
				}
			case 0xa0:
				if ok = skip(); ok && !yield(b, nil) {
					return
				}
			case 0xc0: // how often, and how far apart
				for range 2 {
					ok = ok && skip()
				}
				if ok && !yield(b, nil) {
					return
				}
			default:
				ok = false
			}
			if !ok {
				yield(b, fmt.Errorf("what is bound has %#x, or ends in it", op))
				return
			}
		}
	}
}

// afterNumber returns what is behind a number of variable length.
func afterNumber(code []byte) ([]byte, bool) {
	n := slices.IndexFunc(code, func(c byte) bool { return c < 0x80 }) + 1
	return code[n:], n > 0
}

// addresses goes through the opcodes by which macOS adds to addresses where it loads a program (REBASE_OPCODE_ of
// mach-o/loader.h): none may be in a segment that is not to be written, such as the code's.
func (p *machO) addresses() error {
	raw := p.command(dyldInfo, 48)
	off, size := uint64(p.ByteOrder.Uint32(raw[8:])), uint64(p.ByteOrder.Uint32(raw[12:]))
	if off+size > uint64(len(p.data)) {
		return fmt.Errorf("its addresses are from %d on, of %d bytes, in %d", off, size, len(p.data))
	}
	var segments []*macho.Segment
	for _, l := range p.Loads {
		if s, ok := l.(*macho.Segment); ok {
			segments = append(segments, s)
		}
	}
	for code := p.data[off : off+size]; len(code) > 0; {
		op, low := code[0]&0xf0, int(code[0]&0x0f)
		code = code[1:]
		numbers := 0
		switch op {
		case 0x00, 0x10, 0x40, 0x50: // the end, a kind, steps of a size that is known, or times that are
		case 0x20:
			const write = 2
			if low >= len(segments) || segments[low].Prot&write == 0 {
				return fmt.Errorf("it has addresses in segment %d, which is not to be written", low)
			}
			numbers = 1
		case 0x30, 0x60, 0x70:
			numbers = 1
		case 0x80:
			numbers = 2
		default:
			return fmt.Errorf("its addresses have %#x", op)
		}
		for range numbers {
			var ok bool
			if code, ok = afterNumber(code); !ok {
				return fmt.Errorf("its addresses end in %#x", op)
			}
		}
	}
	return nil
}

// signature checks an ad hoc signature, which Arm's kernel wants of every program and Intel's does not, by the hashes of all
// pages before it. The form is that of Darwin's cs_blobs.h: a superblob with a code directory, in big endian.
func (p *machO) signature() error {
	raw := p.command(codeSignature, 16)
	if raw == nil {
		if p.arch == "arm64" {
			return fmt.Errorf("it is not signed")
		}
		return nil
	}
	at, size := uint64(p.ByteOrder.Uint32(raw[8:])), uint64(p.ByteOrder.Uint32(raw[12:]))
	edit, text := p.Segment("__LINKEDIT"), p.Segment("__TEXT")
	if end := at + size; end != uint64(len(p.data)) || end != edit.Offset+edit.Filesz {
		return fmt.Errorf("its signature ends at %d, the segment of it at %d, the file at %d", end, edit.Offset+edit.Filesz, len(p.data))
	}
	directory, err := codeDirectory(p.data[at:])
	if err != nil {
		return err
	}
	be := binary.BigEndian
	if len(directory) < 88 {
		return fmt.Errorf("the directory of its signature has %d bytes, want 88 or more", len(directory))
	}
	const adHoc, mainProgram = 2, 1
	if version, flags := be.Uint32(directory[8:]), be.Uint32(directory[12:]); version < 0x20400 || flags&adHoc == 0 {
		return fmt.Errorf("its signature is of version %#x with flags %#x, want 0x20400 and ad hoc (%d)", version, flags, adHoc)
	}
	if base, limit, flags := be.Uint64(directory[64:]), be.Uint64(directory[72:]), be.Uint64(directory[80:]); base != text.Offset || limit != text.Filesz || flags&mainProgram == 0 {
		return fmt.Errorf("its signature has code at %d, of %d bytes, with flags %#x, want %d, %d and %d", base, limit, flags, text.Offset, text.Filesz, mainProgram)
	}
	if limit := uint64(be.Uint32(directory[32:])); limit != at {
		return fmt.Errorf("its signature is of %d bytes, want all %d before it", limit, at)
	}
	hashSize, hashType, shift := directory[36], directory[37], directory[39]
	if hashSize != sha256.Size || hashType != 2 || shift < 12 || shift > 14 {
		return fmt.Errorf("its signature has hashes of kind %d and %d bytes, for pages of 2^%d, want SHA-256 for 4 or 16 KiB", hashType, hashSize, shift)
	}
	page := uint64(1) << shift
	first, n := uint64(be.Uint32(directory[16:])), uint64(be.Uint32(directory[28:]))
	if n != (at+page-1)/page || first+n*sha256.Size > uint64(len(directory)) {
		return fmt.Errorf("its signature has %d hashes from %d in %d bytes, want %d", n, first, len(directory), (at+page-1)/page)
	}
	for i := range n {
		sum := sha256.Sum256(p.data[i*page : min((i+1)*page, at)])
		if !bytes.Equal(sum[:], directory[first+i*sha256.Size:][:sha256.Size]) {
			return fmt.Errorf("its signature is of another page %d than is in the file", i)
		}
	}
	return nil
}

// codeDirectory returns the part of a signature that has the hashes.
func codeDirectory(b []byte) ([]byte, error) {
	const super, directory = 0xfade0cc0, 0xfade0c02
	be := binary.BigEndian
	if len(b) < 12 || be.Uint32(b) != super {
		return nil, fmt.Errorf("no signature is where it should be")
	}
	blobs := uint64(be.Uint32(b[8:]))
	for i := range blobs {
		if 12+8*(i+1) > uint64(len(b)) {
			break
		}
		at := uint64(be.Uint32(b[12+8*i+4:]))
		if at+8 > uint64(len(b)) || be.Uint32(b[at:]) != directory {
			continue
		}
		if n := uint64(be.Uint32(b[at+4:])); at+n <= uint64(len(b)) {
			return b[at : at+n], nil
		}
	}
	return nil, fmt.Errorf("its signature has no directory")
}
