package reading

import (
	"bytes"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/chat"
)

// frame is a picture of one grey, as a file.
func frame(t *testing.T, name string, grey uint8) []byte {
	t.Helper()
	im := image.NewGray(image.Rect(0, 0, 16, 8))
	for i := range im.Pix {
		im.Pix[i] = grey
	}
	var b bytes.Buffer
	var err error
	switch filepath.Ext(name) {
	case ".png":
		err = png.Encode(&b, im)
	case ".jpg":
		err = jpeg.Encode(&b, im, nil)
	case ".gif":
		p := image.NewPaletted(im.Rect, color.Palette{color.Gray{grey}})
		err = gif.EncodeAll(&b, &gif.GIF{Image: []*image.Paletted{p, p}, Delay: []int{100, 100}})
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func save(t *testing.T, path string, data []byte) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// A video is an animation, or the pictures in a folder in the order of their names.
func TestReadVideo(t *testing.T) {
	dir := t.TempDir()
	for i, name := range []string{"2.png", "1.jpg", ".hidden", "3.png"} {
		save(t, filepath.Join(dir, "frames", name), frame(t, name, uint8(10*i)))
	}
	m, err := ReadVideo(t.Context(), filepath.Join(dir, "frames"), 4)
	if err != nil || m.Kind != chat.Video || m.Rate != 4 || len(m.Frames) != 3 || !bytes.Equal(m.Frames[1], frame(t, "2.png", 0)) {
		t.Fatalf("%+v, %v", m, err)
	}
	if m, err = ReadVideo(t.Context(), save(t, filepath.Join(dir, "a.gif"), frame(t, "a.gif", 0)), 0); err != nil || m.Kind != chat.Video || m.Data == nil {
		t.Errorf("%+v, %v", m, err)
	}
	for i := range mostFrames + 1 {
		save(t, filepath.Join(dir, "many", string(rune('a'+i/26))+string(rune('a'+i%26))+".png"), frame(t, ".png", 0))
	}
	save(t, filepath.Join(dir, "mixed", "a.txt"), []byte("words"))
	if err := os.Mkdir(filepath.Join(dir, "empty"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Join(dir, "nothing"))
	for name, want := range map[string]string{
		"none": "no such file", "many": "129 frames, want at most 128", "empty": "a video without frames", "mixed": "neither a picture nor a sound",
		"frames/2.png": "is a picture; want a GIF, a folder", "mixed/a.txt": "ffmpeg is not in PATH",
	} {
		if _, err := ReadVideo(t.Context(), filepath.Join(dir, name), 0); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

// Films are read by an ffmpeg, which is asked for no more frames than models are shown.
func TestFilm(t *testing.T) {
	dir := t.TempDir()
	film := save(t, filepath.Join(dir, "a film.mp4"), []byte("\x00\x00\x00\x18ftypmp42"))
	save(t, filepath.Join(dir, "two.jpgs"), append(frame(t, ".jpg", 1), frame(t, ".jpg", 200)...))
	bin := filepath.Join(dir, "bin")
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	probe := func(says string) { save(t, filepath.Join(bin, "ffprobe"), []byte("#!/bin/sh\n"+says+"\n")) }
	ffmpeg := func(does string) {
		save(t, filepath.Join(bin, "ffmpeg"), []byte("#!/bin/sh\necho \"$@\" > '"+dir+"/asked'\n"+does+"\n"))
	}
	probe("echo 1.5")
	ffmpeg("cat '" + dir + "/two.jpgs'")
	m, err := ReadVideo(t.Context(), film, 0)
	if err != nil || m.Rate != chat.FrameRate || len(m.Frames) != 2 || !bytes.Equal(m.Frames[1], frame(t, ".jpg", 200)) {
		t.Fatalf("%+v, %v", m, err)
	}
	if asked, err := os.ReadFile(filepath.Join(dir, "asked")); err != nil || !strings.Contains(string(asked), "-i file:"+film) || !strings.Contains(string(asked), "fps=2.000000,") {
		t.Errorf("%s, %v", asked, err)
	}
	probe("echo 640") // of which there are fewer frames a second
	if m, err = ReadVideo(t.Context(), film, 4); err != nil || m.Rate != 0.2 {
		t.Errorf("%+v, %v", m, err)
	}
	for _, c := range []struct{ probe, ffmpeg, want string }{
		{"echo N/A", "", `it lasts "N/A" seconds`}, {"echo no film >&2; exit 1", "", "a film.mp4: ffprobe: no film"},
		{"exit 3", "", "exit status 3"}, {"echo 1", "printf 'a\\nlast line\\n' >&2; exit 1", "ffmpeg: last line"},
		{"echo 1", "exit 0", "a video without frames"},
	} {
		probe(c.probe)
		ffmpeg(c.ffmpeg)
		if _, err := ReadVideo(t.Context(), film, 0); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
