package verify

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash"

	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/media/picture"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/model/projector"
)

// demoEyes is what the table calls the encoder of the demo that sees.
const demoEyes = demo.Vision + ":mmproj"

// drawn is the picture that encoders are given: slopes of colours with edges in them.
func drawn() *picture.RGB {
	const w, h = 150, 100
	p := &picture.RGB{Width: w, Height: h, Pix: make([]byte, 0, 3*w*h)}
	for y := range h {
		for x := range w {
			p.Pix = append(p.Pix, byte(255*x/w), byte(255*y/h), byte(x/16^y/16)<<4)
		}
	}
	return p
}

// encode returns a hash of the embeddings that an encoder makes of the picture, with weights as in the file and of 8 bits.
func encode(ctx context.Context, f *model.File, kv kernel.KVTypes, c engine.DeviceConfig) (string, error) {
	pool, err := kernel.NewPool(max(c.Threads, 1), nil)
	if err != nil {
		return "", err
	}
	defer pool.Close()
	sum := sha256.New()
	for _, typ := range []model.EncoderType{model.EncoderFile, model.EncoderQ8} {
		if err := encodeAs(ctx, typ, f, kv, pool, sum); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

func encodeAs(ctx context.Context, typ model.EncoderType, f *model.File, kv kernel.KVTypes, pool *kernel.Pool, sum hash.Hash) error {
	budget := mem.NewBudget(1<<30, "the check of an encoder")
	e, err := model.LoadEncoder(f, projector.Sight, typ, kv, model.Options{Pack: pool.PackInto, Budget: budget, Until: ctx})
	if err != nil {
		return err
	}
	defer e.Close()
	for _, part := range e.See(drawn()) {
		if part.Input == nil {
			continue
		}
		x, err := e.Begin(part.Input, pool, budget)
		if err != nil {
			return err
		}
		for !x.Step() {
		}
		for i := range part.Input.Rows() {
			h := hashOf(x.Row(i))
			sum.Write(h[:])
		}
		x.Close()
	}
	return nil
}
