package reading

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/media/picture"
	"github.com/quern-llm/quern/go/model/projector"
)

// mostFrames is how many frames of a video models are shown at most.
const mostFrames = 128

const wantVideo = "want its frames as data:video/jpeg;base64,FRAME,FRAME,..., or an animated GIF"

// FramesURL returns the frames of a data: URL that lists them, in base64 with commas between them, as vLLM has it. ok: it does.
func FramesURL(url string) (frames [][]byte, ok bool, err error) {
	head, list, _ := strings.Cut(url, ",")
	if head = strings.ToLower(strings.TrimSpace(head)); head != "data:video/jpeg;base64" && head != "data:video/png;base64" {
		return nil, false, nil
	}
	if err := checkFrames(strings.Count(list, ",") + 1); err != nil {
		return nil, true, err
	}
	for i, text := range strings.Split(list, ",") {
		data, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(text, "=\r\n "))
		if err != nil || len(data) == 0 {
			return nil, true, fmt.Errorf("frame %d is not in base64; "+wantVideo, i)
		}
		frames = append(frames, data)
	}
	return frames, true, nil
}

// checkFrames returns an error for a number of frames that no video has.
func checkFrames(n int) error {
	switch {
	case n == 0:
		return errors.New("a video without frames; " + wantVideo)
	case n > mostFrames:
		return fmt.Errorf("%d frames, want at most %d: leave out some, and say how many there are a second", n, mostFrames)
	}
	return nil
}

// CheckVideo returns an error for a file that is no video that is read.
func CheckVideo(data []byte) error {
	switch format, _ := picture.Format(data); {
	case format == "GIF":
		return nil
	case bytes.HasPrefix(data, []byte("\x1aE\xdf\xa3")):
		return errors.New("WebM and Matroska are not read; " + wantVideo)
	case len(data) >= 12 && string(data[:4]) == "RIFF" && string(data[8:12]) == "AVI ":
		return errors.New("AVI is not read; " + wantVideo)
	case format != "":
		return fmt.Errorf("%s is not read as a video; "+wantVideo, format)
	}
	return errors.New("no video that is known; " + wantVideo)
}

// frames decodes a picture, or a video to frames of one size: those of a list as they are, and of an animation those that are
// shown at times in equal steps. Of all together there are as many pixels as of a picture.
func frames(ctx context.Context, m *chat.Medium, l picture.Limits) (film projector.Film, err error) {
	if m.Kind == chat.Video && m.Frames == nil {
		all, err := picture.Animation(ctx, m.Data, l)
		if err == nil {
			film = sampled(all)
		}
		return film, err
	}
	files := m.Frames
	if m.Kind != chat.Video {
		files = [][]byte{m.Data}
	}
	film.Rate = float64(cmp.Or(m.Rate, chat.FrameRate))
	if err := checkFrames(len(files)); err != nil {
		return film, err
	}
	if low, high := 1e-4, 1e3; !(film.Rate >= low && film.Rate <= high) {
		return film, fmt.Errorf("a video of %g frames a second, want %g to %g", film.Rate, low, high)
	}
	for i, data := range files {
		p, err := picture.Decode(ctx, data, l)
		if err != nil && i > 0 {
			return film, fmt.Errorf("frame %d: %w", i, err)
		} else if err != nil {
			return film, err
		}
		film.Frames = append(film.Frames, p)
		first, n := film.Frames[0], len(files)
		if p.Width != first.Width || p.Height != first.Height {
			return film, fmt.Errorf("frame %d has %d x %d pixels, and those before it %d x %d: want frames of one size",
				i, p.Width, p.Height, first.Width, first.Height)
		}
		if n*p.Width*p.Height > l.Pixels && n > 1 {
			return film, fmt.Errorf("%w: %d frames of %d x %d pixels; the maximum is %d in all", picture.ErrSize, n, p.Width, p.Height, l.Pixels)
		}
	}
	return film, nil
}

// sampled returns the frames of an animation that are shown at times in equal steps.
func sampled(all []picture.Frame) (film projector.Film) {
	var whole time.Duration
	for _, f := range all {
		whole += f.For
	}
	step := max(time.Second/chat.FrameRate, whole/mostFrames)
	film.Rate = float64(time.Second) / float64(step)
	i, end := -1, time.Duration(0) // the frame that is shown, and until when
	for t := time.Duration(0); t < whole && len(film.Frames) < mostFrames; t += step {
		for end <= t {
			i++
			end += all[i].For
		}
		film.Frames = append(film.Frames, all[i].RGB)
	}
	return film
}
