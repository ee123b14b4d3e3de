package prepare

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/media/picture"
)

// A reference is a case of one toy with what the peer made of its pictures.
type reference struct {
	Media  []string
	Pixels []struct {
		Size   [2]int
		SHA256 string
	}
}

func references(t *testing.T, toy string) map[string]reference {
	t.Helper()
	paths, err := filepath.Glob(testdata.Path(t, "mmproj/cases") + "/" + toy + ".*.json")
	if err != nil || len(paths) < 4 {
		t.Fatal(paths, err)
	}
	all := map[string]reference{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var r reference
		if err := json.Unmarshal(text, &r); err != nil {
			t.Fatal(path, err)
		}
		all[strings.TrimSuffix(filepath.Base(path), ".json")] = r
	}
	return all
}

// rgb returns what Pillow decodes: JPEG is rounded otherwise here, by at most 3.
func rgb(t *testing.T, name string) *picture.RGB {
	t.Helper()
	dir := testdata.Path(t, "mmproj")
	raw := filepath.Join(dir, "raw", filepath.Base(name))
	path := filepath.Join(dir, name)
	decode := func(path string) *picture.RGB {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		p, err := picture.Decode(t.Context(), data, picture.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	if _, err := os.Stat(raw + ".png"); err == nil {
		return decode(raw + ".png")
	}
	p := decode(path)
	if pix, err := os.ReadFile(raw + ".rgb"); err == nil && len(pix) == len(p.Pix) {
		p.Pix = pix
	}
	return p
}

func TestSizes(t *testing.T) {
	smart := func(unit, low, high int) func(p *picture.RGB) *picture.RGB {
		return func(p *picture.RGB) *picture.RGB {
			w, h := Smart(p.Width, p.Height, unit, low*unit*unit, high*unit*unit)
			return Pad(p, w, h, Bicubic, [3]byte{})
		}
	}
	for toy, make := range map[string]func(p *picture.RGB) *picture.RGB{
		"gemma3":   func(p *picture.RGB) *picture.RGB { return Pad(p, 56, 56, Bilinear, [3]byte{}) },
		"llava":    func(p *picture.RGB) *picture.RGB { return Pad(p, 56, 56, Bicubic, [3]byte{122, 116, 104}) },
		"qwen3vl":  smart(32, 8, 4096),
		"qwen25vl": smart(28, 8, 4096),
		"glm4v":    smart(28, 8, 4096),
		"kimivl":   smart(28, 8, 1024),
		"pixtral":  smart(28, 8, 1024),
		"gemma4v":  smart(48, 70, 1120),
	} {
		for name, r := range references(t, toy) {
			for i, media := range r.Media {
				p := make(rgb(t, media))
				sum := sha256.Sum256(p.Pix)
				if want := r.Pixels[i]; [2]int{p.Width, p.Height} != want.Size {
					t.Errorf("%s: %d x %d, want %v", name, p.Width, p.Height, want.Size)
				} else if hex.EncodeToString(sum[:]) != want.SHA256 {
					t.Errorf("%s: other pixels", name)
				}
			}
		}
	}
}

func TestTiles(t *testing.T) {
	in := func(side int, list []Grid) (sizes [][2]int) {
		for _, g := range list {
			sizes = append(sizes, [2]int{side * g.Columns, side * g.Rows})
		}
		return sizes
	}
	for toy, tiles := range map[string]func(p *picture.RGB) []*picture.RGB{
		"idefics3": func(p *picture.RGB) []*picture.RGB {
			w, h := Even(p.Width, p.Height, 128)
			p = Resize(p, w, h, Lanczos)
			w, h = Whole(w, h, 64)
			p = Resize(p, w, h, Lanczos)
			return append(Cut(p, Grid{w / 64, h / 64}), Resize(p, 64, 64, Lanczos))
		},
		"internvl": func(p *picture.RGB) []*picture.RGB {
			overview := Resize(p, 56, 56, Bicubic)
			if p.Width <= 56 && p.Height <= 56 {
				return []*picture.RGB{overview}
			}
			grids := Grids(1, 12)
			g := grids[BestFit(p.Width, p.Height, in(56, grids))]
			return append(Cut(Pad(p, 56*g.Columns, 56*g.Rows, Bicubic, [3]byte{}), g), overview)
		},
		"llama4": func(p *picture.RGB) []*picture.RGB {
			overview := Resize(p, 56, 56, Bicubic)
			if p.Width <= 56 && p.Height <= 56 {
				return []*picture.RGB{overview}
			}
			var grids []Grid
			for x := 1; x <= 3; x++ {
				for y := 1; y <= 3; y++ {
					if x+y > 2 {
						grids = append(grids, Grid{x, y})
					}
				}
			}
			g := grids[BestFit(p.Width, p.Height, in(56, grids))]
			return append(Cut(Pad(p, 56*g.Columns, 56*g.Rows, Bicubic, [3]byte{}), g), overview)
		},
		"lfm2": func(p *picture.RGB) []*picture.RGB {
			w, h := Smart(p.Width, p.Height, 32, 64*32*32, 256*32*32)
			overview := Resize(p, w, h, Bilinear)
			if Nearby(p.Width, 32)*Nearby(p.Height, 32) <= 2*256*32*32 {
				return []*picture.RGB{overview}
			}
			g := Nearest(p.Width, p.Height, 512, 2, 10)
			return append(Cut(Resize(p, 512*g.Columns, 512*g.Rows, Bilinear), g), overview)
		},
	} {
		for name, r := range references(t, toy) {
			var got []*picture.RGB
			for _, media := range r.Media {
				got = append(got, tiles(rgb(t, media))...)
			}
			if len(got) != len(r.Pixels) {
				t.Errorf("%s: %d tiles, want %d", name, len(got), len(r.Pixels))
				continue
			}
			for i, p := range got {
				sum := sha256.Sum256(p.Pix)
				if want := r.Pixels[i]; [2]int{p.Width, p.Height} != want.Size || hex.EncodeToString(sum[:]) != want.SHA256 {
					t.Errorf("%s: tile %d of %d: %d x %d, want %v", name, i, len(got), p.Width, p.Height, want.Size)
				}
			}
		}
	}
}
