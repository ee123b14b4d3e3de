package picture

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/draw"
	"image/gif"
	"time"

	"github.com/quern-llm/quern/go/internal/panics"
)

// A Frame is a picture of an animation, and for how long it is shown.
type Frame struct {
	*RGB
	For time.Duration
}

const (
	maxAnimation = 4096    // frames, at most: of few pixels, others take memory and time
	frameBytes   = 6 << 10 // of a frame beside its pixels: 256 colours of 16 bytes, and what reads it
)

// Animation returns the frames of an animated GIF as they are shown: each is drawn over what is left of those before it. The
// limits are those of all frames together.
func Animation(ctx context.Context, data []byte, l Limits) ([]Frame, error) {
	f, err := find(data)
	if err != nil {
		return nil, err
	}
	if f.name != "GIF" {
		return nil, fmt.Errorf("%w: a %s is one picture; an animation is a GIF", ErrFormat, f.name)
	}
	c, err := gif.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return nil, damaged(f, err)
	}
	most := l.Pixels
	if most == 0 {
		most = MaxPixels
	}
	n := countFrames(data)
	switch {
	case n > maxAnimation:
		return nil, fmt.Errorf("%w: a GIF of %d frames; the maximum is %d", ErrSize, n, maxAnimation)
	case c.Width < 1 || c.Height < 1 || n == 0:
		return nil, fmt.Errorf("%w: a GIF of %d frames of %d x %d pixels", ErrFormat, n, c.Width, c.Height)
	case c.Height > most/c.Width/n:
		return nil, fmt.Errorf("%w: a GIF of %d frames of %d x %d pixels; the maximum is %d in all", ErrSize, n, c.Width, c.Height, most)
	}
	if l.Reserve != nil { // of each frame its indexes, its colours and its result, and the canvas twice
		free, err := l.Reserve(uint64(c.Width)*uint64(c.Height)*(4*uint64(n)+8) + uint64(n)*frameBytes)
		if err != nil {
			return nil, fmt.Errorf("a GIF of %d frames of %d x %d pixels: %w", n, c.Width, c.Height, err)
		}
		defer free()
	}
	var all *gif.GIF
	err = panics.Catch(func() (err error) {
		all, err = gif.DecodeAll(&untilDone{ctx, bytes.NewReader(data)})
		return err
	})
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, damaged(f, err)
	}
	canvas := image.NewRGBA(image.Rect(0, 0, c.Width, c.Height))
	var frames []Frame
	for i, shown := range all.Image {
		var before []byte
		if all.Disposal[i] == gif.DisposalPrevious {
			before = bytes.Clone(canvas.Pix)
		}
		draw.Draw(canvas, shown.Rect, shown, shown.Rect.Min, draw.Over)
		p, err := toRGB(canvas, c, false)
		if err != nil {
			return nil, damaged(f, err)
		}
		frames = append(frames, Frame{p, duration(all.Delay[i])})
		switch all.Disposal[i] {
		case gif.DisposalPrevious:
			copy(canvas.Pix, before)
		case gif.DisposalBackground:
			draw.Draw(canvas, shown.Rect, image.Transparent, image.Point{}, draw.Src)
		}
	}
	return frames, nil
}

// duration returns that of hundredths of a second, which browsers take for a tenth where they say almost none.
func duration(hundredths int) time.Duration {
	if hundredths < 2 {
		hundredths = 10
	}
	return time.Duration(hundredths) * 10 * time.Millisecond
}

// countFrames returns how many pictures a GIF has at most, without decoding any.
func countFrames(data []byte) (n int) {
	const header, size, place = 6, 7, 9 // bytes
	table := func(flags byte) int {     // of colours, as flags say
		if flags&0x80 == 0 {
			return 0
		}
		return 3 << (1 + flags&7)
	}
	if len(data) < header+size {
		return 0
	}
	at := header + size + table(data[header+4])
	for at < len(data) {
		switch data[at] {
		case 0x21: // an extension and its label
			at += 2
		case 0x2c:
			if n++; at+place >= len(data) {
				return n
			}
			at += 1 + place + table(data[at+place]) + 1 // the width of codes
		default:
			return n
		}
		for at < len(data) && data[at] != 0 { // blocks with their lengths
			at += 1 + int(data[at])
		}
		at++
	}
	return n
}
