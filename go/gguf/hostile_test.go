package gguf

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/internal/cputime"
)

// What a file claims, or is made of, costs no more than a few times its size,
// and no more than a moment.
func TestParseCost(t *testing.T) {
	const size = 16 << 20
	fill := func(head raw, each raw) (raw, int) {
		n := (size - len(head)) / len(each)
		for range n {
			head = append(head, each...)
		}
		return head, n
	}
	// array is one array of count elements, each the given bytes.
	array := func(k kind, each raw) raw {
		b, n := fill(header(3, 0, 1).fields("k", kindArray, k, u(0)), each)
		copy(b[len(header(3, 0, 1).fields("k", kindArray, k)):], raw(nil).fields(u(n)))
		return b
	}
	kvs := header(3, 0, MaxKVs)
	for i := range MaxKVs {
		kvs = kvs.fields(fmt.Sprintf("%05d", i), kindUint64, u(i))
	}
	// directory has as many tensors as can be, the last with the given offset.
	directory := func(last int) raw {
		b := header(3, MaxTensors, 0)
		for i := range MaxTensors - 1 {
			b = b.fields(fmt.Sprintf("%06d", i), uint32(1), u(8), uint32(F32), u(32*i))
		}
		return b.fields("last", uint32(1), u(8), uint32(F32), u(last)).pad(32).zeros(32 * MaxTensors)
	}
	nested := header(3, 0, 1).fields("k", kindArray, kindArray, u(MaxArrays))
	for range MaxArrays {
		nested = nested.fields(kindUint8, u(1), uint8(1))
	}

	for _, r := range []struct {
		name string
		data raw
		most int // allocated bytes for each of the file's
	}{
		{"bools", array(kindBool, raw{1}), 2},
		{"bytes", array(kindUint8, raw{1}), 2},
		{"doubles", array(kindFloat64, raw("12345678")), 2},
		{"empty strings", array(kindString, raw(nil).fields("")), 3},
		{"short strings", array(kindString, raw(nil).fields("ab")), 3},
		{"arrays beyond the limit", array(kindArray, raw(nil).fields(kindUint8, u(0))), 1},
		{"arrays", nested, 5},
		{"one string", header(3, 0, 1).fields("k", kindString, string(make([]byte, size))), 2},
		{"entries", kvs, 8},
		{"tensors", directory(32 * (MaxTensors - 1)), 4},
		{"tensors, the last over the first", directory(0), 4},
		{"long key", header(3, 0, 1).fields(string(make([]byte, size))).zeros(16), 1},
		{"counts without entries", header(3, MaxTensors, 0).zeros(MaxTensors * 25), 8},
	} {
		t.Run(r.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			var f *File
			var err error
			took := cputime.Of(func() { f, err = Parse(r.data) })
			runtime.ReadMemStats(&after)
			runtime.KeepAlive(f)
			got := after.TotalAlloc - before.TotalAlloc
			t.Logf("%d bytes: %.1f times that allocated in %v: %v", len(r.data), float64(got)/float64(len(r.data)), took, err)
			if got > uint64(r.most*len(r.data)) {
				t.Errorf("%d bytes allocated for a file of %d, want at most %d times as much", got, len(r.data), r.most)
			}
			if took > 5*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}
