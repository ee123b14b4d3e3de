package speechtest

import (
	"bytes"

	"github.com/quern-llm/quern/go/gguf"
)

// Hearing returns the file of a projector with which models of this width hear sounds, as nothing: rows are zeros.
func Hearing(width int) ([]byte, error) {
	const samples = 640
	g := gguf.NewWriter()
	for key, value := range map[string]any{
		"general.architecture": "clip", "clip.has_audio_encoder": true, "clip.projector_type": "gemma4ua",
		"clip.audio.embedding_length": uint32(samples), "clip.audio.projection_dim": uint32(width), "clip.audio.num_mel_bins": uint32(128),
	} {
		g.Set(key, value)
	}
	g.AddTensor("mm.a.input_projection.weight", gguf.F16, []uint64{samples, uint64(width)}, gguf.Bytes(make([]byte, 2*samples*width)))
	var b bytes.Buffer
	_, err := g.WriteTo(&b)
	return b.Bytes(), err
}
