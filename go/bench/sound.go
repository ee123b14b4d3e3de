package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/transcribe"
)

// A Sound is what models of speech are measured with.
type Sound struct {
	Name       string
	Samples    []float32 // transcribe.Rate a second
	Vocabulary func(model string) (*transcribe.Vocabulary, error)
}

// A SoundResult says how fast a model transcribes a sound, at one temperature.
type SoundResult struct {
	ModelFilename string   `json:"model_filename"`
	ModelType     string   `json:"model_type"`
	Threads       int      `json:"n_threads"`
	TypeK         string   `json:"type_k"`
	TypeV         string   `json:"type_v"`
	Sound         string   `json:"sound"`
	Seconds       float64  `json:"sound_seconds"`
	Tokens        int      `json:"n_tokens"` // that were said
	AvgNS         uint64   `json:"avg_ns"`
	StdDevNS      uint64   `json:"stddev_ns"`
	Speed         float64  `json:"real_time_factor"` // seconds of sound in a second
	SpeedDev      float64  `json:"stddev_real_time_factor"`
	SamplesNS     []uint64 `json:"samples_ns"`
}

func soundTable() table[SoundResult] {
	return table[SoundResult]{[]column[SoundResult]{
		{"model", 30, true, func(r *SoundResult) string { return r.ModelType }},
		{"threads", 7, false, func(r *SoundResult) string { return fmt.Sprint(r.Threads) }},
		{"type_k", 6, false, func(r *SoundResult) string { return r.TypeK }},
		{"type_v", 6, false, func(r *SoundResult) string { return r.TypeV }},
		{"sound", 9, false, func(r *SoundResult) string { return fmt.Sprintf("%.1f s", r.Seconds) }},
		{"tokens", 6, false, func(r *SoundResult) string { return fmt.Sprint(r.Tokens) }},
		{"time", 9, false, func(r *SoundResult) string { return fmt.Sprintf("%.3f s", float64(r.AvgNS)/1e9) }},
		{"times real time", 17, false, func(r *SoundResult) string {
			return fmt.Sprintf("%.1f ± %.1f", r.Speed, r.SpeedDev)
		}},
	}, func(r *SoundResult) string { return "sound: " + r.Sound }}
}

// hear transcribes the sound as often as the plan says.
func (b *run) hear(ctx context.Context, eng *engine.Engine, s Setup, desc string) error {
	v, err := b.plan.Sound.Vocabulary(s.Model)
	if err != nil {
		return err
	}
	loop, err := engine.NewLoop(eng, engine.LoopConfig{Queue: 1})
	if err != nil {
		return err
	}
	defer loop.Close()
	hears, err := transcribe.NewEngine(eng.Model().Config, nil, func(r *engine.Request) (transcribe.Ticket, error) {
		return loop.Submit(r)
	})
	if err != nil {
		return err
	}
	defer hears.Close()
	sound := b.plan.Sound
	r := &SoundResult{ModelFilename: s.Model, ModelType: desc, Threads: s.Threads, TypeK: s.KV.K.String(), TypeV: s.KV.V.String(),
		Sound: sound.Name, Seconds: float64(len(sound.Samples)) / transcribe.Rate}
	var times, speeds []float64
	for i := range b.plan.Repeats + 1 {
		if i == 0 && !b.plan.Warmup {
			continue
		}
		start := time.Now()
		said, err := transcribe.Transcribe(ctx, hears, v, sound.Samples, transcribe.Options{Temperatures: []float32{0}})
		if err != nil {
			return err
		}
		if took := max(time.Since(start), 1); i > 0 {
			r.Tokens = said.Tokens
			r.SamplesNS = append(r.SamplesNS, uint64(took))
			times, speeds = append(times, float64(took)), append(speeds, r.Seconds/took.Seconds())
		}
	}
	avg, dev := meanDev(times)
	r.AvgNS, r.StdDevNS = uint64(avg), uint64(dev)
	r.Speed, r.SpeedDev = meanDev(speeds)
	return b.sounds.row(r)
}
