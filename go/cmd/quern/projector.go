package main

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/internal/llamaflags"
	"github.com/quern-llm/quern/go/launch"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/reading"
)

// projectorFlags say which encoders of pictures and sounds go with a model.
type projectorFlags struct {
	path, url string
	auto      bool
	typ       model.EncoderType
	images    reading.Limits
}

func (f *projectorFlags) define(fs *pflag.FlagSet, hub *hubFlags) { f.defineBeside(fs, fs, hub) }

// defineBeside is define where those that name the projector of one model have a set of their own.
func (f *projectorFlags) defineBeside(fs, which *pflag.FlagSet, hub *hubFlags) {
	which.Var(&projectorValue{f, hub}, "mmproj", "GGUF `FILE` of the encoders of pictures and sounds of the first model, or the folder of its checkpoint (default: mmproj*.gguf beside the model)")
	which.StringVar(&f.url, "mmproj-url", "", "`URL` of that file, downloaded if needed")
	which.Lookup("mmproj-url").Hidden = true
	encoderTypeVar(fs, &f.typ)
	intVar(fs, &f.images.MinTokens, "image-min-tokens", "", 0, 0, 1<<20, "tokens of a picture at least, however small it is; 0 is the model's own")
	intVar(fs, &f.images.MaxTokens, "image-max-tokens", "", 0, 0, 1<<20, "tokens of a picture at most, however large it is; 0 is the model's own")
	projectorsVar(fs, &f.auto, hub, "use and download the projector that comes with a model; --no-mmproj does without")
}

// encoderTypeVar defines the flag for the type of an encoder's weights.
func encoderTypeVar(fs *pflag.FlagSet, p *model.EncoderType) {
	fs.TextVar(p, "mmproj-type", model.EncoderAuto, "`TYPE` of the weights of encoders in memory: file, q8_0, or auto, which is q8_0 for floats of encoders that are not small")
}

// projectorsVar defines the flag that says whether models come with their projectors.
func projectorsVar(fs *pflag.FlagSet, p *bool, hub *hubFlags, usage string) {
	switchVar(fs, p, "mmproj-auto", true, usage)
	llamaflags.Off(fs, "mmproj-auto", "--no-mmproj")
	hub.projectors = p
}

// named returns the name of the projector; empty if there is none.
func (f *projectorFlags) named() (string, error) {
	name := cmp.Or(f.path, f.url)
	switch {
	case f.url != "" && f.path != "":
		return "", usagef("--mmproj %s and --mmproj-url %s both name a projector; give one", f.path, f.url)
	case name != "" && !f.auto:
		return "", usagef("--mmproj %s and --no-mmproj: is there to be a projector? give one of them", name)
	}
	return name, nil
}

// apply adds the flags to the settings of a model.
func (f *projectorFlags) apply(s *launch.Settings) {
	s.Projector, s.NoProjector, s.ProjectorType, s.Media = f.path, !f.auto, f.typ, f.images
}

// A projectorValue is the name of a projector.
type projectorValue struct {
	f   *projectorFlags
	hub *hubFlags
}

func (v *projectorValue) Set(s string) error {
	v.f.path = s
	return acceptModel(s)
}

func (v *projectorValue) String() string {
	if v.f == nil {
		return ""
	}
	return v.f.path
}

func (v *projectorValue) Type() string { return "FILE" }

// locate replaces the name of the projector by the path of its file.
func (v *projectorValue) locate(cmd *cobra.Command) error {
	name, err := v.f.named()
	if err != nil {
		return err
	}
	at, err := v.hub.locateAlone(cmd, name, v.f.url != "")
	v.f.path = at.path
	return err
}

// mediaFlags name pictures, videos, sounds and documents.
type mediaFlags struct {
	images, sounds, videos, documents []string
	rate                              float32 // frames of a video a second
}

// seen reports whether the model has to see.
func (f *mediaFlags) seen() bool { return f.images != nil || f.videos != nil }

func (f *mediaFlags) define(fs *pflag.FlagSet) {
	fs.StringArrayVar(&f.images, "image", nil, "`FILE` of a picture that the message has; repeatable")
	fs.StringArrayVar(&f.videos, "video", nil, "`FILE` of a video that it has: a GIF, a folder with a picture for each frame, or a film, which the ffmpeg in PATH reads; repeatable")
	floatVar(fs, &f.rate, "video-fps", chat.FrameRate, 0.01, 1000, "frames of a video that are shown a second, or that a folder has")
	fs.StringArrayVar(&f.sounds, "audio", nil, "`FILE` of a sound that it has; repeatable")
	fs.StringArrayVar(&f.documents, "document", nil, "`FILE` of a document whose text it has: PDF, DOCX, HTML or text; repeatable")
}

// read returns them, as parts in front of a message. Those that are texts are documents.
func (f *mediaFlags) read(ctx context.Context) (parts []chat.Part, err error) {
	for _, name := range f.documents {
		p, err := reading.ReadDocument(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("--document: %w", err)
		}
		parts = append(parts, p)
	}
	for _, list := range []struct {
		flag  string
		kind  chat.Kind
		names []string
	}{{"--image", chat.Picture, f.images}, {"--audio", chat.Sound, f.sounds}} {
		for _, name := range list.names {
			m, err := reading.ReadFile(name)
			switch {
			case err != nil:
				return nil, fmt.Errorf("%s: %w", list.flag, err)
			case m.Kind != list.kind:
				return nil, fmt.Errorf("%s: %s is a %s", list.flag, name, m.Kind)
			}
			parts = append(parts, chat.Part{Medium: m})
		}
	}
	for _, name := range f.videos {
		m, err := reading.ReadVideo(ctx, name, f.rate)
		if err != nil {
			return nil, fmt.Errorf("--video: %w", err)
		}
		parts = append(parts, chat.Part{Medium: m})
	}
	return parts, nil
}

// taken returns an error unless a model takes parts.
func taken(parts []chat.Part, p *reading.Projector, path string) error {
	for _, one := range parts {
		if m := one.Medium; m != nil && !p.Takes(m.Kind) {
			flag, does := "--image", "sees"
			switch m.Kind {
			case chat.Sound:
				flag, does = "--audio", "hears"
			case chat.Video:
				flag = "--video"
			}
			return fmt.Errorf("%s: %s takes no %s; want a model that %s, or its projector with --mmproj FILE", flag, path, m.Kind, does)
		}
	}
	return nil
}
