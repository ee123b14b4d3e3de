package reading

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/media/picture"
)

// filmSide is the most pixels on a side of frames that ffmpeg makes: as many frames as models are shown have no more pixels than
// a picture may have.
const filmSide = 704

// filmTime bounds how long ffmpeg may take.
const filmTime = 10 * time.Minute

// ReadVideo returns the video in a file or a folder, of which rate frames a second are shown; 0: chat.FrameRate. It is an
// animated GIF, a folder with a picture for each frame, in the order of their names, or any file that the ffmpeg in PATH reads.
func ReadVideo(ctx context.Context, path string, rate float32) (*chat.Medium, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return framesIn(path, rate)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file and no folder", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	head := make([]byte, 64)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	switch format, _ := picture.Format(head[:n]); {
	case format == "GIF":
		m, err := ReadFile(path)
		if err == nil {
			m.Kind = chat.Video
		}
		return m, err
	case n == 0:
		return nil, fmt.Errorf("%s is empty", path)
	case format == "PNG" || format == "JPEG" || format == "WebP" || format == "BMP":
		return nil, fmt.Errorf("%s is a picture; want a GIF, a folder with a picture for each frame, or a film", path)
	}
	m, err := filmed(ctx, path, rate)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// framesIn returns the pictures in a folder as a video.
func framesIn(dir string, rate float32) (*chat.Medium, error) {
	entries, err := os.ReadDir(dir) // in the order of names
	if err != nil {
		return nil, err
	}
	m := &chat.Medium{Kind: chat.Video, Frames: [][]byte{}, Rate: rate}
	size := 0
	for _, e := range entries {
		if e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		one, err := ReadFile(filepath.Join(dir, e.Name()))
		if err == nil && one.Kind != chat.Picture {
			err = fmt.Errorf("%s is a %s; want a folder with a picture for each frame", filepath.Join(dir, e.Name()), one.Kind)
		}
		if err != nil {
			return nil, err
		}
		if size += len(one.Data); size > maxFile {
			return nil, fmt.Errorf("%s has more than %d MiB; give smaller pictures, or fewer", dir, maxFile>>20)
		}
		m.Frames = append(m.Frames, one.Data)
		if len(m.Frames) > mostFrames {
			break
		}
	}
	if err := checkFrames(len(m.Frames)); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return m, nil
}

// filmed returns frames of a film in equal steps, as ffmpeg takes them out.
func filmed(ctx context.Context, path string, rate float32) (*chat.Medium, error) {
	const without = "a film is read with ffmpeg and ffprobe, and %s is not in PATH: install ffmpeg, or give a GIF or a folder with a " +
		"picture for each frame"
	for _, tool := range []string{"ffmpeg", "ffprobe"} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, fmt.Errorf(without, tool)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, filmTime)
	defer cancel()
	path, err := filepath.Abs(path) // a name that begins with a hyphen, or has a protocol, is a file
	if err != nil {
		return nil, err
	}
	path = "file:" + path
	text, err := answered(ctx, "ffprobe", 1<<16, "-v", "error", "-show_entries", "format=duration", "-of", "csv=p=0", "-i", path)
	if err != nil {
		return nil, err
	}
	seconds, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
	if err != nil || !(seconds > 0) || seconds > 1e7 {
		return nil, fmt.Errorf("ffprobe says that it lasts %.20q seconds", strings.TrimSpace(string(text)))
	}
	if rate == 0 {
		rate = chat.FrameRate
	}
	rate = float32(math.Min(float64(rate), mostFrames/seconds))
	scale := fmt.Sprintf("fps=%.6f,scale='min(%[2]d,iw)':'min(%[2]d,ih)':force_original_aspect_ratio=decrease:force_divisible_by=2",
		rate, filmSide)
	film, err := answered(ctx, "ffmpeg", maxFile, "-v", "error", "-nostdin", "-i", path, "-map", "v:0", "-vf", scale,
		"-frames:v", strconv.Itoa(mostFrames), "-c:v", "mjpeg", "-q:v", "2", "-f", "image2pipe", "-")
	if err != nil {
		return nil, err
	}
	m := &chat.Medium{Kind: chat.Video, Rate: rate, Frames: pictures(film)}
	return m, checkFrames(len(m.Frames))
}

// pictures splits JPEGs that follow each other. Within one, the bytes that end it stand nowhere else: ffmpeg writes no previews.
func pictures(b []byte) [][]byte {
	all := [][]byte{}
	for {
		end := bytes.Index(b, []byte("\xff\xd9"))
		if end < 0 {
			return all
		}
		all = append(all, b[:end+2])
		b = b[end+2:]
	}
}

// answered returns what a program writes, of at most so many bytes, or its last line of errors.
func answered(ctx context.Context, name string, most int, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var out, said limited
	out.most, said.most = most, 1<<12
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	switch lines := strings.Split(strings.TrimSpace(said.String()), "\n"); {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%s was ended: %w", name, context.Cause(ctx))
	case out.full:
		return nil, fmt.Errorf("%s writes more than %d bytes", name, most)
	case err != nil && lines[len(lines)-1] != "":
		return nil, fmt.Errorf("%s: %s", name, lines[len(lines)-1])
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return out.Bytes(), nil
}

// limited keeps the first bytes that are written.
type limited struct {
	bytes.Buffer
	most int
	full bool
}

func (b *limited) Write(p []byte) (int, error) {
	n := min(len(p), b.most-b.Len())
	b.full = b.full || n < len(p)
	b.Buffer.Write(p[:n])
	return len(p), nil
}
