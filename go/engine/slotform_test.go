package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/model"
)

// slotBytesOf returns a slot file by its definition.
func slotBytesOf(e *Engine, space string, ids []int32, units []byte) []byte {
	number := func(b []byte, n int) []byte { return binary.LittleEndian.AppendUint32(b, uint32(n)) }
	b := []byte("quernKV4")
	if space != "" {
		b = []byte("quernKV5")
	}
	b = append(b, e.fingerprint()...)
	if space != "" {
		b = append(number(b, len(space)), space...)
	}
	b = number(b, len(ids))
	for _, id := range ids {
		b = number(b, int(id))
	}
	b = append(b, units...)
	return binary.LittleEndian.AppendUint64(b, xxhash.Sum64(b))
}

// A fullDisk takes so many bytes.
type fullDisk int

var errDisk = errors.New("no space left")

func (d *fullDisk) Write(b []byte) (int, error) {
	n := min(len(b), int(*d))
	if *d -= fullDisk(n); n < len(b) {
		return n, errDisk
	}
	return n, nil
}

// A slot file has the bytes of its form, with adapters and without, and these are counted. What was restored is found by
// requests with the same adapters, and is the last text of the slot; a text that is of no slot is none's.
func TestFormOfSlotFiles(t *testing.T) {
	l := openLoop(t, tiny, Config{Sequences: 2, Ctx: 256}, LoopConfig{})
	other := openLoop(t, tiny, Config{Sequences: 2, Ctx: 256}, LoopConfig{})
	path := writeAdapter(t, l.e, 2, 7, "blk.0.attn_q.weight")
	adapter := func(l *Loop) []ScaledAdapter {
		a, err := l.OpenAdapter(path)
		if err != nil {
			t.Fatal(err)
		}
		return []ScaledAdapter{{a, 2}}
	}
	mine, theirs := adapter(l), adapter(other)
	prompt := randomIDs(l.e, 3, 100)
	request := func(list []ScaledAdapter) *Request {
		r := greedyRequest(prompt, 5)
		r.Adapters, r.Namespace = list, "a key"
		return r
	}
	for _, adapted := range []bool{false, true} {
		var list, there []ScaledAdapter
		if adapted {
			list, there = mine, theirs
		}
		_, c := submit(t, l, request(list))
		slot := c.wait(t).Slot
		ids, space := slices.Concat(prompt, c.ids[:4]), adapterSpace(list)
		var units, file, text bytes.Buffer
		l.mu.Lock()
		table := l.tree.Find("a key"+space, ids)
		err := table.Parts(func(part []byte) error { units.Write(part); return nil })
		table.Free()
		l.mu.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		want := slotBytesOf(l.e, space, ids, units.Bytes())
		saved, err := l.SaveSlot(slot, "a key", &file)
		if err != nil || saved != (SlotFile{104, int64(len(want))}) || !bytes.Equal(file.Bytes(), want) {
			t.Errorf("adapted %v: saved %+v, %v, want %d bytes", adapted, saved, err, len(want))
		}
		saved, err = l.SaveText(append(ids, 1, 2), list, "a key", &text)
		if err != nil || saved.Tokens != 104 || !bytes.Equal(text.Bytes(), want) {
			t.Errorf("adapted %v: a text is saved as %+v, %v", adapted, saved, err)
		}
		if _, err := l.SaveText(ids, list, "another", io.Discard); !errors.Is(err, ErrSlotEmpty) {
			t.Errorf("a text of another: %v", err)
		}
		head := len(want) - units.Len() - 8
		for _, n := range []int{0, head - 1, head, head + 1, len(want) - 8, len(want) - 1} {
			disk := fullDisk(n)
			if _, err := l.SaveSlot(slot, "a key", &disk); !errors.Is(err, errDisk) || errors.Is(err, ErrSlotEmpty) {
				t.Errorf("on a disk of %d bytes: %v", n, err)
			}
		}
		checkBlocks(t, l)

		for _, n := range []int{0, 7, 39, head - 1, head, len(want) - 9, len(want) - 8, len(want) - 1} {
			if _, err := other.RestoreText("a key", bytes.NewReader(want[:n])); !errors.Is(err, ErrSlotFile) || !strings.Contains(err.Error(), "cut short") {
				t.Errorf("cut after %d of %d bytes: %v", n, len(want), err)
			}
		}
		if got, err := other.RestoreText("another", bytes.NewReader(want)); err != nil || got.Bytes != int64(len(want)) || got.Tokens != 104 {
			t.Errorf("a text is restored as %+v, %v", got, err)
		}
		cached := func(namespace string) int {
			other.mu.Lock()
			defer other.mu.Unlock()
			return other.tree.Len(namespace+space, ids)
		}
		if n := cached("another"); n != 104 {
			t.Errorf("%d tokens of a restored text are found", n)
		}
		for slot := range 2 {
			if _, err := other.SaveSlot(slot, "another", io.Discard); !errors.Is(err, ErrSlotEmpty) || !strings.Contains(err.Error(), fmt.Sprintf("slot %d", slot)) {
				t.Errorf("slot %d has a text: %v", slot, err)
			}
		}
		if got, err := other.RestoreSlot(1, "a key", bytes.NewReader(want)); err != nil || got.Bytes != int64(len(want)) {
			t.Errorf("restored %+v, %v", got, err)
		}
		file.Reset()
		if _, err := other.SaveSlot(1, "a key", &file); err != nil || !bytes.Equal(file.Bytes(), want) {
			t.Errorf("what was restored is saved otherwise: %v", err)
		}
		again := request(there)
		again.Slot = 1
		_, c = submit(t, other, again)
		if u := c.wait(t); u.CachedTokens != 99 || !slices.Equal(c.ids[:4], ids[100:]) {
			t.Errorf("adapted %v: %d tokens are found, and it says %v", adapted, u.CachedTokens, c.ids)
		}
		if n, err := other.EraseSlot(1, "a key"); n != 104 || err != nil || cached("a key") != 0 {
			t.Errorf("erased %d tokens, %v", n, err)
		}
		if n, err := other.EraseSlot(1, "a key"); n != 0 || err != nil {
			t.Errorf("erased %d tokens again, %v", n, err)
		}
		checkBlocks(t, other)
	}
	if _, err := l.EraseSlot(2, ""); !errors.Is(err, ErrSlot) {
		t.Errorf("a slot that is not there: %v", err)
	}
	l.Close()
	if _, err := l.SaveText(prompt, nil, "", io.Discard); !errors.Is(err, ErrClosing) {
		t.Errorf("a text of a closed loop: %v", err)
	}
	if _, err := l.RestoreText("", bytes.NewReader(nil)); !errors.Is(err, ErrClosing) {
		t.Errorf("a file for a closed loop: %v", err)
	}
}

// The bounds of what a slot file says: as many tokens as the context has and no more, of the vocabulary, with names of
// adapters that are not too long. What there is no memory for is refused too, and takes none.
func TestBoundsOfSlotFiles(t *testing.T) {
	l := openLoop(t, tiny, Config{Sequences: 1, Ctx: 128}, LoopConfig{})
	units := func(tokens int) []byte {
		l.mu.Lock()
		defer l.mu.Unlock()
		table, err := l.e.kv.NewTableOf(tokens)
		if err != nil {
			t.Fatal(err)
		}
		defer table.Free()
		n := 0
		if err := table.Parts(func(part []byte) error { n += len(part); return nil }); err != nil {
			t.Fatal(err)
		}
		return make([]byte, n)
	}
	ids := func(n int, first int32) []int32 {
		all := make([]int32, n)
		all[0] = first
		return all
	}
	vocab := int32(l.e.model.Config.NVocab)
	most := make([]ScaledAdapter, MaxApplied)
	for i := range most {
		most[i] = ScaledAdapter{&Adapter{m: &model.Adapter{}}, float32(i + 1)}
	}
	full := slotBytesOf(l.e, "", ids(128, 1), units(128))
	for what, c := range map[string]struct {
		file []byte
		want string // in the error; empty: it is restored
	}{
		"a full context":     {full, ""},
		"one token too many": {slotBytesOf(l.e, "", ids(129, 1), units(128)), "it has 129 tokens, and the context is 128"},
		"no tokens":          {slotBytesOf(l.e, "", nil, nil), "it has 0 tokens"},
		"the last token":     {slotBytesOf(l.e, "", ids(5, vocab-1), units(5)), ""},
		"one after it":       {slotBytesOf(l.e, "", ids(5, vocab), units(5)), fmt.Sprint(vocab)},
		"a negative token":   {slotBytesOf(l.e, "", ids(5, -1), units(5)), "-1"},
		"all adapters":       {slotBytesOf(l.e, adapterSpace(most), ids(5, 1), units(5)), ""},
		"long names":         {slotBytesOf(l.e, strings.Repeat("a", maxSpace), ids(5, 1), units(5)), ""},
		"names too long": {
			slotBytesOf(l.e, strings.Repeat("a", maxSpace+1), ids(5, 1), units(5)), fmt.Sprintf("are %d bytes long", maxSpace+1),
		},
		"another version": {slices.Concat([]byte("quernKV7"), full[8:]), "does not begin with"},
	} {
		_, err := l.RestoreSlot(0, "", bytes.NewReader(c.file))
		if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, ErrSlotFile) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", what, err)
		}
	}
	l.mu.Lock()
	l.tree.Clear()
	all, err := l.e.kv.NewTableOf(128)
	l.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.RestoreSlot(0, "", bytes.NewReader(full)); !errors.Is(err, kvcache.ErrFull) {
		t.Errorf("without memory: %v", err)
	}
	l.mu.Lock()
	all.Free()
	l.mu.Unlock()
	if _, err := l.RestoreSlot(0, "", bytes.NewReader(full)); err != nil {
		t.Errorf("with memory again: %v", err)
	}
	checkBlocks(t, l)
}
