package engine

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/kvcache"
)

// A slot file is a text and the state that a sequence keeps of it, as laid out in memory:
//
//	"quernKV4"          8 bytes
//	fingerprint         32 bytes: hash of everything in the model that determines the state of a text
//	adapters            in files that begin with "quernKV5" or "quernKV6": uint32, then as many bytes, that name them and
//	                    their scales
//	media               in files that begin with "quernKV6": uint32, then that many hashes of 32 bytes
//	tokens              uint32, then that many int32; -1 - i is a token of medium i
//	units               of each group of the model's state in turn: the blocks that the
//	                    next token sees, in the order of position, or the state; of a
//	                    divided model the parts of all ranks, one after the other
//	checksum            uint64: xxHash64 of all bytes before it
//
// Numbers are little-endian. The file reveals the text: its tokens are in the clear.
const slotMagic, slotMagicAdapted, slotMagicMedia = "quernKV4", "quernKV5", "quernKV6"

// slotMagicOld are those of older files, which had no checksum.
var slotMagicOld = []string{"quernKV1", "quernKV2", "quernKV3"}

// maxSpace is the maximum length of the adapters' names in a slot file.
const maxSpace = 128 * kernel.MaxAdapters

// unitsVersion is the version of the kernels' layout of a unit: see csrc/format/kv.h.
const unitsVersion = 1

// SlotFile is a summary of a slot file.
type SlotFile struct {
	Tokens int
	Bytes  int64
}

// Errors of slot operations.
var (
	ErrSlot      = errors.New("no such slot")
	ErrSlotEmpty = errors.New("nothing of the slot is in the cache")
	ErrSlotFile  = errors.New("not a slot file of this model")
	ErrSlotModel = fmt.Errorf("%w: it is of another one, of another configuration, or of another type of keys and values", ErrSlotFile)
)

// slotFiles returns an error if there are none of the state of sequences.
func (l *Loop) slotFiles() error {
	if err := l.e.notByLayers("slot files are"); err != nil {
		return fmt.Errorf("%w: %w", ErrSlotFile, err)
	}
	return nil
}

// SaveSlot writes the cached state of the last text of a slot, if it belongs to this namespace. Errors wrap
// ErrSlot, ErrSlotEmpty or ErrClosing, or are the writer's.
func (l *Loop) SaveSlot(slot int, namespace string, w io.Writer) (SlotFile, error) {
	if err := l.slotFiles(); err != nil {
		return SlotFile{}, err
	}
	l.mu.Lock()
	ids, err := l.slotText(slot, namespace)
	if err != nil {
		l.mu.Unlock()
		return SlotFile{}, err
	}
	f, err := l.save(ids, namespace, l.slots[slot].space, w)
	if errors.Is(err, ErrSlotEmpty) {
		err = fmt.Errorf("slot %d: %w", slot, err)
	}
	return f, err
}

// SaveText writes the cached state of a text, or of as much of its beginning as is in the cache, in the form of a slot
// file. The text was made with these adapters. Errors wrap ErrSlotEmpty or ErrClosing, or are the writer's.
func (l *Loop) SaveText(ids []int32, adapters []ScaledAdapter, namespace string, w io.Writer) (SlotFile, error) {
	if err := l.slotFiles(); err != nil {
		return SlotFile{}, err
	}
	l.mu.Lock()
	if l.stopping {
		l.mu.Unlock()
		return SlotFile{}, ErrClosing
	}
	return l.save(slices.Clone(ids), namespace, adapterSpace(adapters), w)
}

// save writes the state of a text. The caller holds the lock, which save releases.
func (l *Loop) save(ids []int32, namespace, space string, w io.Writer) (SlotFile, error) {
	table := l.tree.Find(namespace+space, ids) // holding a reference makes its blocks safe to read: shared blocks are never written
	l.saving.Add(1)
	l.mu.Unlock()
	defer l.saving.Done()
	defer func() {
		l.mu.Lock()
		table.Free()
		l.nudge() // a request may be waiting for the blocks
		l.mu.Unlock()
	}()
	if ids = ids[:table.Len()]; len(ids) == 0 {
		return SlotFile{}, ErrSlotEmpty
	}
	hashes, ids, ok := l.e.mediaIDs.numbered(ids)
	if !ok {
		return SlotFile{}, ErrSlotEmpty
	}
	var head bytes.Buffer
	magic := slotMagic
	if len(hashes) > 0 {
		magic = slotMagicMedia
	} else if space != "" {
		magic = slotMagicAdapted
	}
	head.WriteString(magic)
	head.Write(l.e.fingerprint())
	if magic != slotMagic {
		binary.Write(&head, binary.LittleEndian, uint32(len(space)))
		head.WriteString(space)
	}
	if magic == slotMagicMedia {
		binary.Write(&head, binary.LittleEndian, uint32(len(hashes)))
		binary.Write(&head, binary.LittleEndian, hashes)
	}
	binary.Write(&head, binary.LittleEndian, uint32(len(ids)))
	binary.Write(&head, binary.LittleEndian, ids)
	f := SlotFile{Tokens: len(ids), Bytes: int64(head.Len())}
	sum := xxhash.New()
	both := io.MultiWriter(w, sum)
	if _, err := both.Write(head.Bytes()); err != nil {
		return f, err
	}
	units, err := l.e.writeState(table, both)
	f.Bytes += units
	if err == nil {
		var n int
		n, err = w.Write(binary.LittleEndian.AppendUint64(nil, sum.Sum64()))
		f.Bytes += int64(n)
	}
	if errors.Is(err, kvcache.ErrAged) {
		err = fmt.Errorf("%w: %w", ErrSlotEmpty, err)
	}
	return f, err
}

var errSlotShort = fmt.Errorf("%w: it is cut short", ErrSlotFile)

func slotUint(r io.Reader) (uint32, error) {
	var n uint32
	if binary.Read(r, binary.LittleEndian, &n) != nil {
		return 0, errSlotShort
	}
	return n, nil
}

// RestoreSlot reads a slot file into the prefix cache, as the last text of a slot: requests of the namespace
// that begin with it will reuse it. Errors wrap ErrSlot, ErrSlotFile, ErrClosing or kvcache.ErrFull.
func (l *Loop) RestoreSlot(slot int, namespace string, r io.Reader) (SlotFile, error) {
	if err := l.slotFiles(); err != nil {
		return SlotFile{}, err
	}
	l.mu.Lock()
	if err := l.isSlot(slot); err != nil {
		l.mu.Unlock()
		return SlotFile{}, err
	}
	return l.restore(namespace, r, func(ids []int32, namespace, space string) {
		l.slots[slot].ids, l.slots[slot].namespace, l.slots[slot].space = ids, namespace, space
	})
}

// RestoreText is RestoreSlot for no slot: it reads what SaveText has written.
func (l *Loop) RestoreText(namespace string, r io.Reader) (SlotFile, error) {
	if err := l.slotFiles(); err != nil {
		return SlotFile{}, err
	}
	l.mu.Lock()
	if l.stopping {
		l.mu.Unlock()
		return SlotFile{}, ErrClosing
	}
	return l.restore(namespace, r, func([]int32, string, string) {})
}

// restore reads a slot file into the prefix cache and calls kept. The caller holds the lock, which restore releases.
func (l *Loop) restore(namespace string, r io.Reader, kept func(ids []int32, namespace, space string)) (SlotFile, error) {
	l.saving.Add(1)
	l.mu.Unlock()
	defer l.saving.Done()
	sum := xxhash.New()
	file := bufio.NewReaderSize(r, 1<<16)
	in := &countedReader{r: io.TeeReader(file, sum)}
	space, ids, held, err := l.e.readSlotHead(in)
	defer l.e.mediaIDs.release(held)
	if err != nil {
		return SlotFile{}, err
	}
	l.mu.Lock()
	table, err := l.e.kv.NewTableOf(len(ids))
	l.mu.Unlock()
	if err != nil {
		return SlotFile{}, err
	}
	if err = l.e.readState(table, in); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errSlotShort
	}
	f := SlotFile{Tokens: len(ids), Bytes: in.n}
	if err == nil {
		err = checkSlotEnd(file, sum.Sum64())
		f.Bytes += 8
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		namespace += space
		l.tree.Keep(namespace, table, ids, kvcache.How{End: true})
		kept(ids, namespace, space)
	}
	table.Free()
	l.nudge() // a request may be waiting for the blocks
	return f, err
}

// A countedReader counts what is read.
type countedReader struct {
	r io.Reader
	n int64
}

func (c *countedReader) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += int64(n)
	return n, err
}

// readSlotHead reads a slot file up to its units: the names of its adapters and the tokens. It holds the ids of its media.
func (e *Engine) readSlotHead(in io.Reader) (space string, ids []int32, held []*mediaID, err error) {
	head := make([]byte, len(slotMagic)+sha256.Size)
	if _, err := io.ReadFull(in, head); err != nil {
		return "", nil, nil, errSlotShort
	}
	magic := string(head[:len(slotMagic)])
	if slices.Contains(slotMagicOld, magic) {
		return "", nil, nil, fmt.Errorf("%w: it is of an older version, which had no checksum; save the slot again", ErrSlotFile)
	}
	if magic != slotMagic && magic != slotMagicAdapted && magic != slotMagicMedia {
		return "", nil, nil, fmt.Errorf("%w: it does not begin with %q", ErrSlotFile, slotMagic)
	}
	if !bytes.Equal(head[len(slotMagic):], e.fingerprint()) {
		return "", nil, nil, ErrSlotModel
	}
	if magic != slotMagic {
		n, err := slotUint(in)
		if err == nil && n > maxSpace {
			err = fmt.Errorf("%w: the names of its adapters are %d bytes long", ErrSlotFile, n)
		}
		if err != nil {
			return "", nil, nil, err
		}
		names := make([]byte, n)
		if _, err := io.ReadFull(in, names); err != nil {
			return "", nil, nil, errSlotShort
		}
		space = string(names)
	}
	var hashes [][sha256.Size]byte
	if magic == slotMagicMedia {
		n, err := slotUint(in)
		if err == nil && int64(n) > int64(e.ctx) {
			err = fmt.Errorf("%w: it has %d media, and the context is %d", ErrSlotFile, n, e.ctx)
		}
		if err != nil {
			return "", nil, nil, err
		}
		hashes = make([][sha256.Size]byte, n)
		if err := binary.Read(in, binary.LittleEndian, hashes); err != nil {
			return "", nil, nil, errSlotShort
		}
	}
	n, err := slotUint(in)
	if err != nil {
		return "", nil, nil, err
	}
	if n == 0 || int64(n) > int64(e.ctx) {
		return "", nil, nil, fmt.Errorf("%w: it has %d tokens, and the context is %d", ErrSlotFile, n, e.ctx)
	}
	ids = make([]int32, n)
	if err := binary.Read(in, binary.LittleEndian, ids); err != nil {
		return "", nil, nil, errSlotShort
	}
	for i, id := range ids {
		if int(id) < -len(hashes) || int(id) >= e.model.Config.NVocab {
			return "", nil, nil, fmt.Errorf("%w: token %d is %d, want %d to %d", ErrSlotFile, i, id, -len(hashes), e.model.Config.NVocab-1)
		}
	}
	for _, h := range hashes {
		held = append(held, e.mediaIDs.hold(h))
	}
	for i, id := range ids {
		if id < 0 {
			ids[i] = held[-1-id].id
		}
	}
	return space, ids, held, nil
}

// checkSlotEnd reads the checksum at the end of a slot file.
func checkSlotEnd(r io.Reader, sum uint64) error {
	var end [8]byte
	if _, err := io.ReadFull(r, end[:]); err != nil {
		return errSlotShort
	}
	if n, _ := r.Read(make([]byte, 1)); n > 0 {
		return fmt.Errorf("%w: something follows its end", ErrSlotFile)
	}
	if binary.LittleEndian.Uint64(end[:]) != sum {
		return fmt.Errorf("%w: its checksum is not that of its content: it was damaged", ErrSlotFile)
	}
	return nil
}

// EraseSlot removes the last text of a slot from the prefix cache, if it belongs to this namespace, except
// for prefixes shared with other texts, and returns its number of tokens. Errors wrap ErrSlot or ErrClosing.
func (l *Loop) EraseSlot(slot int, namespace string) (tokens int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ids, err := l.slotText(slot, namespace)
	if err != nil {
		if errors.Is(err, ErrSlotEmpty) {
			err = nil
		}
		return 0, err
	}
	l.tree.Forget(l.slots[slot].namespace, ids)
	l.nudge()
	l.slots[slot].ids = nil
	return len(ids), nil
}

// slotText returns the last text of a slot, or none if it belongs to another namespace.
func (l *Loop) slotText(slot int, namespace string) ([]int32, error) {
	if err := l.isSlot(slot); err != nil {
		return nil, err
	}
	s := &l.slots[slot]
	if len(s.ids) == 0 || s.namespace != namespace+s.space {
		return nil, fmt.Errorf("slot %d: %w", slot, ErrSlotEmpty)
	}
	return s.ids, nil
}

// isSlot returns an error if there is no such slot, or none any more. The caller holds the lock.
func (l *Loop) isSlot(slot int) error {
	if l.stopping {
		return ErrClosing
	}
	if slot < 0 || slot >= len(l.slots) {
		return fmt.Errorf("%w: %d, want 0 to %d", ErrSlot, slot, len(l.slots)-1)
	}
	return nil
}

// fingerprint is a hash of everything that determines the state of a text: the configuration, with its
// rotations and norms; the types of keys and values; the groups of state and their memory layout, of each rank in turn;
// the channel factors, which depend on all of the weights, of each rank as well; and the name, shape, offset and first
// bytes of each tensor, or the checksums of a packed file.
func (e *Engine) fingerprint() []byte {
	e.printed.Do(func() {
		h := sha256.New()
		cfg := *e.model.Config
		cfg.Ctx = 0       // what follows from it is among the layers' rotations
		cfg.Media = false // the state of a text is the same
		fmt.Fprintf(h, "%+v\n%d %v %+v\n", cfg, unitsVersion, e.KVName(), e.kv.Layout())
		if e.lead != nil {
			fmt.Fprintf(h, "ranks %v %x\n", e.lead.UnitsOfRanks(), e.lead.ComputedHashes())
		}
		e.file.Print(h)
		for _, v := range e.model.Computed() {
			binary.Write(h, binary.LittleEndian, v) // a hash takes all
		}
		e.print = h.Sum(nil)
	})
	return e.print
}
