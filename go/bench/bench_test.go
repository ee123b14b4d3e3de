package bench

import (
	"bytes"
	"context"
	"math"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/measure"
	"github.com/quern-llm/quern/go/model/arch"
	"github.com/quern-llm/quern/go/synth"
)

func TestStatistics(t *testing.T) {
	r := Result{Prompt: 10}
	for _, ns := range []uint64{1e9, 2e9, 3e9} {
		r.sample(ns)
	}
	r.finish(nil, cost{})
	if r.AvgNS != 2e9 || r.StdDevNS != 1e9 || math.Abs(r.AvgTS-(10+5+10./3)/3) > 1e-12 || r.RoofTS != nil {
		t.Errorf("got %+v", r)
	}
	if mean, dev := meanDev([]float64{4}); mean != 4 || dev != 0 {
		t.Errorf("one value: %g, %g", mean, dev)
	}
}

// Worked by hand, on a machine of 100 bytes and 1000 multiply-adds per second.
func TestRooflineSpeed(t *testing.T) {
	r := measure.Roofline{ReadBytesPerSec: 100, Int8MACPerSec: 1000}
	dense := cost{bytes: 80, macs: 100, outputBytes: 20, outputMACs: 50, kvBytes: 1}
	moe := cost{expertBytes: 800, expertMACs: 800, nExpert: 8, nUsed: 2}
	for _, tt := range []struct {
		name                       string
		c                          cost
		prompt, gen, depth, ubatch int
		want                       float64
	}{
		// 80 + 20 + 1 bytes, then 80 + 20 + 2.
		{"two tokens", dense, 0, 2, 0, 512, 2 / (1.01 + 1.02)},
		{"at a depth", dense, 0, 1, 99, 512, 1 / 2.0},
		// 40 tokens: 4050 multiply-adds beat 140 bytes.
		{"prompt", dense, 40, 0, 0, 512, 40 / 4.05},
		// Slices of 4: 84 bytes, 88 bytes, and 112 with the output matrix.
		{"small slices", dense, 12, 0, 0, 4, 12 / (0.84 + 0.88 + 1.12)},
		{"prompt and one", dense, 40, 1, 0, 512, 41 / (4.05 + 1.41)},
		{"experts of one token", moe, 0, 1, 0, 512, 1 / 2.0},
		// Two tokens use 1 - (3/4)^2 of the experts.
		{"experts of two", moe, 2, 0, 0, 512, 2 / 3.5},
	} {
		if got := tt.c.speed(r, tt.prompt, tt.gen, tt.depth, tt.ubatch); math.Abs(got/tt.want-1) > 1e-12 {
			t.Errorf("%s: %g, want %g", tt.name, got, tt.want)
		}
	}
}

// More than the roofline of memory is what the caches hold.
func TestOfRoof(t *testing.T) {
	for share, want := range map[float64]string{0.5: "50.0 %", 1: "100.0 %", 1.723: "172.3 % (in cache)"} {
		if got := ofRoof(&share); got != want {
			t.Errorf("%g: %q, want %q", share, got, want)
		}
	}
}

// A product is held against what takes longer, packing against a copy, and what
// comes from the caches against arithmetic alone.
func TestKernelRoof(t *testing.T) {
	r := measure.Roofline{ReadBytesPerSec: 10e9, Int8MACPerSec: 100e9}
	for _, tt := range []struct {
		in   measure.Result
		want float64 // 0: no roof
	}{
		{measure.Result{Kernel: measure.Matmul, Bytes: 5e9, MACs: 10e9}, 0.5},
		{measure.Result{Kernel: measure.Matmul, Bytes: 5e9, MACs: 80e9}, 0.8},
		{measure.Result{Kernel: measure.Matmul, Bytes: 5e9, MACs: 10e9, FromCache: true}, 0.1},
		{measure.Result{Kernel: measure.Attention, Bytes: 2e9, MACs: 1e9}, 0.2},
		{measure.Result{Kernel: measure.Pack, Bytes: 3e9, Copies: []time.Duration{time.Second, time.Second / 4, 3 * time.Second / 4}}, 0.75},
		{measure.Result{Kernel: measure.Norm, Bytes: 3e9, FromCache: true}, 0},
	} {
		tt.in.Samples = []time.Duration{9 * time.Second, time.Second, time.Second / 2}
		var row KernelResult
		row.fill(&tt.in)
		row.compare(&tt.in, r)
		got := 0.0
		if row.RoofFraction != nil {
			got = *row.RoofFraction
		}
		if math.Abs(got-tt.want) > 1e-12 || row.GBps != tt.in.Bytes/1e9 || row.GMACs != tt.in.MACs/1e9 {
			t.Errorf("%+v: roof %g, want %g; %g GB/s, %g GMAC/s", tt.in, got, tt.want, row.GBps, row.GMACs)
		}
	}
}

// What a token reads: all of the file but the embeddings, of which it reads a
// row.
func TestDescribe(t *testing.T) {
	m, err := synth.ParseShape("tiny:Q8_0")
	if err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	if _, err := m.Write(context.Background(), &buf); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Parse(buf.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := arch.ReadConfig(f)
	if err != nil {
		t.Fatal(err)
	}
	got := describe(f, cfg, kvcache.Both(kvcache.F16))
	const (
		embd   = 2048 * 256
		layers = 4 * (256*256*2 + 128*256*2 + 3*768*256)
		norms  = 4*2*256 + 256
		q8     = 34. / 32
	)
	want := cost{
		bytes: layers*q8 + 4*norms, macs: layers, outputBytes: embd * q8, outputMACs: embd,
		kvBytes: 4 * 2 * 2 * 64 * 2,
	}
	if got.cost != want {
		t.Errorf("cost %+v, want %+v", got.cost, want)
	}
	if got.params != 2*embd+layers+norms {
		t.Errorf("%d parameters, want %d", got.params, 2*embd+layers+norms)
	}
}

// Shares of the speeds of products are of those that were measured; an operation without multiply-adds has none.
func TestTrainResult(t *testing.T) {
	f32, bf16 := 10., 40.
	r := &TrainResult{Tokens: 5, SamplesNS: []uint64{30, 20, 40}, SamplesTS: []float64{3, 2, 1}, products: products{F32GMACs: &f32, BF16GMACs: &bf16}}
	r.finish([]float64{30, 20, 40}, cost{macs: 8, outputMACs: 3})
	// 2 (8 * 5 + 3 * 4) multiply-adds in 20 ns
	if r.BestNS != 20 || r.AvgNS != 30 || math.Abs(r.AvgTS-2) > 1e-12 || math.Abs(r.GMACs-5.2) > 1e-12 || math.Abs(*r.F32Fraction-0.52) > 1e-12 || math.Abs(*r.BF16Fraction-0.13) > 1e-12 {
		t.Errorf("got %+v", r)
	}
	if none := r.compared(0); none.F32Fraction != nil || none.BF16Fraction != nil || none.F32GMACs != &f32 {
		t.Errorf("without multiply-adds: %+v", none)
	}
	if none := (products{}).compared(1); none.F32Fraction != nil {
		t.Errorf("without the speeds: %+v", none)
	}
}
