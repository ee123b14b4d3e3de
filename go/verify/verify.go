// Package verify checks that this machine computes the same bits as every other. An
// embedded table has, for models that the program can generate itself, the continuation
// of a prompt and a hash of all its logits; any instruction set of any CPU must give the
// same. So has it what training makes of some of them.
//
// The table is the definition of the numeric profile: when a change alters a bit,
// the table changes, and with it the profile's name, which answers of the server
// carry; but not with what is trained, since no answer depends on it.
package verify

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"slices"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/machine"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/sample"
)

// A Row is a computation and its expected result.
type Row struct {
	Model    string  `json:"model"`                 // see Open
	Training string  `json:"training,omitempty"`    // what is trained: adapter, dora or weights; empty: nothing, the model continues a prompt
	KV       string  `json:"kv"`                    // type of keys and values
	Bits     int     `json:"activations,omitempty"` // of activations, 16 where they are not 8; 0: 8
	File     string  `json:"file"`                  // SHA-256 of the model's file
	Prompt   []int32 `json:"prompt"`                // token ids; of training, what is learnt
	IDs      []int32 `json:"ids"`                   // the likeliest continuation
	Logits   string  `json:"logits"`                // SHA-256 of the logits after each token, as 32-bit floats, little endian; of an encoder, of its embeddings of a picture; of training, of the numbers after some steps
}

// fineBits is how many bits activations may have instead of 8.
const fineBits = 16

// settings says with what a row was computed.
func (r *Row) settings() string {
	s := "with " + r.KV + " keys and values"
	if r.Bits == fineBits {
		s += fmt.Sprintf(", and activations of %d bits", fineBits)
	}
	return s
}

// A Division is among how many ranks a model is divided, by rows or by layers; the zero value: it is not.
type Division struct {
	Ranks  int
	Layers bool
}

// Compute continues a prompt by n tokens and returns the resulting row; an encoder reads a picture instead. fine: activations
// have 16 bits instead of 8. It closes the file. Logits are computed twice, token by token and again for
// all tokens in one pass, and an error says where they differ. A model may be divided among
// threads of this process, which changes nothing.
func Compute(ctx context.Context, name string, f *model.File, kv kvcache.Type, fine bool, prompt []int32, n int, c engine.DeviceConfig, d Division) (_ Row, err error) {
	r := Row{Model: name, KV: kv.String(), File: fileHash(f), Prompt: prompt}
	if fine {
		r.Bits = fineBits
	}
	if _, err := f.GGUF.Projector(); err == nil {
		defer f.Close()
		r.Logits, err = encode(ctx, f, (&engine.Config{KV: kvcache.Both(kv)}).KVTypes(), c)
		return r, err
	}
	config := engine.Config{Ctx: len(prompt) + n, KV: kvcache.Both(kv), Fine: fine}
	if d.Ranks > 1 {
		var wait func() error
		if config.Ranks, wait, err = engine.InThreads(ctx, func(bool) (*model.File, error) { return f.Again() }, c, d.Ranks); err != nil {
			f.Close()
			return r, err
		}
		defer func() { err = cmp.Or(err, wait()) }()
		config.Ranks.Layers = d.Layers
		if err = c.Fill(); err == nil {
			c.Threads, c.Place = max(c.Threads/d.Ranks, 1), machine.Placement{}
		}
	}
	if config.Device, err = engine.NewDevice(c); err != nil {
		f.Close()
		return r, err
	}
	defer config.Device.Close()
	e, err := engine.New(f, config)
	if err != nil {
		return r, err
	}
	defer e.Close()
	ids, stepwise, err := generate(ctx, e, prompt, n)
	if err != nil {
		return r, err
	}
	at, err := differs(ctx, e, slices.Concat(prompt, ids), stepwise)
	if err != nil {
		return r, err
	}
	if at >= 0 {
		return r, fmt.Errorf("%s: the logits of token %d depend on the tokens beside it", name, at)
	}
	r.IDs, r.Logits = ids, stepwise.sum()
	return r, nil
}

// hashes has a hash of the logits after each token.
type hashes [][sha256.Size]byte

func (h hashes) sum() string {
	all := sha256.New()
	for _, one := range h {
		all.Write(one[:])
	}
	return hex.EncodeToString(all.Sum(nil))
}

// generate returns the likeliest n tokens after the prompt, and hashes of the logits
// after every token but the last. Each token has a pass of its own.
func generate(ctx context.Context, e *engine.Engine, prompt []int32, n int) (ids []int32, h hashes, err error) {
	s := e.NewSequence()
	defer s.Close()
	next := int32(0)
	see := func(_ int, logits []float32) error {
		h = append(h, hashOf(logits))
		next = sample.Likeliest(logits)
		return nil
	}
	for i := range len(prompt) + n - 1 {
		id := next
		if i < len(prompt) {
			id = prompt[i]
		} else {
			ids = append(ids, id)
		}
		if err := e.Eval(ctx, s, []int32{id}, 0, see); err != nil {
			return nil, nil, err
		}
	}
	return append(ids, next), h, nil
}

// differs evaluates all ids but the last in one pass, and returns the first whose logits
// differ from those of h, or -1.
func differs(ctx context.Context, e *engine.Engine, ids []int32, h hashes) (at int, err error) {
	s := e.NewSequence()
	defer s.Close()
	at = -1
	err = e.Eval(ctx, s, ids[:len(ids)-1], 0, func(i int, logits []float32) error {
		if at < 0 && hashOf(logits) != h[i] {
			at = i
		}
		return nil
	})
	return at, err
}

func hashOf(logits []float32) [sha256.Size]byte {
	b := make([]byte, 0, 4*len(logits))
	for _, v := range logits {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return sha256.Sum256(b)
}
