package main

import (
	"context"
	"fmt"
	"os"

	"github.com/quern-llm/quern/go/bench"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/media/picture"
	"github.com/quern-llm/quern/go/mem"
)

// measureImages implements "quern bench --image".
func (f *benchFlags) measureImages(ctx context.Context, out bench.Output) error {
	p, err := pictureOf(ctx, f.image)
	if err != nil {
		return err
	}
	m, err := f.machine()
	if err != nil {
		return err
	}
	if _, err := chooseKernels(); err != nil {
		return err
	}
	kv, err := f.kvTypes()
	if err != nil {
		return err
	}
	images := bench.Images{
		Projectors: f.models, Name: f.image, Picture: p, Threads: f.threads, Type: f.mmproj, KV: kv, Repeats: f.reps, Warmup: !f.noWarmup,
		Machine: m, Budget: mem.NewBudget(engine.Limit(m, f.memory)),
	}
	return images.Run(ctx, out)
}

// pictureOf returns the picture in a file, or one of a size that is drawn: a slope of colours with edges in it.
func pictureOf(ctx context.Context, name string) (*picture.RGB, error) {
	var w, h int
	if n, err := fmt.Sscanf(name+"\n", "%dx%d\n", &w, &h); n == 2 && err == nil {
		if w < 1 || h < 1 || w > picture.MaxPixels/h {
			return nil, usagef("--image %s: want sides of at least 1 and at most %d pixels together", name, picture.MaxPixels)
		}
		p := &picture.RGB{Width: w, Height: h, Pix: make([]byte, 3*w*h)}
		for y := range h {
			for x := range w {
				to := p.Pix[3*(y*w+x):]
				to[0], to[1], to[2] = byte(255*x/w), byte(255*y/h), byte(x/16^y/16)<<3
			}
		}
		return p, nil
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	p, err := picture.Decode(ctx, data, picture.Limits{})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return p, nil
}
