package transcribe

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
)

// Formats are the names of what transcriptions are written as.
var Formats = []string{"text", "json", "verbose_json", "srt", "vtt"}

// Write writes a transcription in a format, as OpenAI's API has them. task is "transcribe" or "translate".
func (r *Result) Write(w io.Writer, format, task string) error {
	switch format {
	case "text":
		_, err := fmt.Fprintln(w, r.Text)
		return err
	case "json":
		return json.NewEncoder(w).Encode(struct {
			Text string `json:"text"`
		}{r.Text})
	case "verbose_json":
		return json.NewEncoder(w).Encode(r.verbose(task))
	case "srt", "vtt":
		var b strings.Builder
		b.WriteString(Begin(format))
		n := 0
		for i := range r.Segments {
			b.WriteString(r.Segments[i].Cues(format, &n))
		}
		_, err := io.WriteString(w, b.String())
		return err
	}
	return fmt.Errorf("format %.40q is not known; want %s", format, strings.Join(Formats, ", "))
}

// Begin is what a file of captions begins with.
func Begin(format string) string {
	if format == "vtt" {
		return "WEBVTT\n\n"
	}
	return ""
}

// Cue returns a segment as the n-th caption of a file in the format srt or vtt.
func (s *Segment) Cue(format string, n int) string {
	text := strings.ReplaceAll(strings.TrimSpace(s.Text), "-->", "->")
	if format == "srt" {
		return fmt.Sprintf("%d\n%s --> %s\n%s\n\n", n, clock(s.Start, ","), clock(s.End, ","), text)
	}
	return fmt.Sprintf("%s --> %s\n%s\n\n", clock(s.Start, "."), clock(s.End, "."), text)
}

// Cues returns the segment as captions: one, or one for each word whose time is known. n is how many there are so far.
func (s *Segment) Cues(format string, n *int) string {
	if len(s.Words) == 0 {
		*n++
		return s.Cue(format, *n)
	}
	var b strings.Builder
	for _, w := range s.Words {
		*n++
		b.WriteString((&Segment{Start: w.Start, End: w.End, Text: w.Text}).Cue(format, *n))
	}
	return b.String()
}

// clock writes a time with hours, minutes, seconds and thousandths.
func clock(seconds float64, point string) string {
	ms := int64(math.Round(seconds * 1000))
	return fmt.Sprintf("%02d:%02d:%02d%s%03d", ms/3600000, ms/60000%60, ms/1000%60, point, ms%1000)
}

type verbose struct {
	Task     string           `json:"task"`
	Language string           `json:"language,omitempty"`
	Duration float64          `json:"duration"`
	Text     string           `json:"text"`
	Words    []verboseWord    `json:"words,omitzero"`    // nil: their times are not known
	Segments []verboseSegment `json:"segments,omitzero"` // nil: neither are theirs
}

type verboseWord struct {
	Word  string  `json:"word"`
	Start float64 `json:"start"`
	End   float64 `json:"end"`
}

type verboseSegment struct {
	ID          int     `json:"id"`
	Seek        int     `json:"seek"`
	Start       float64 `json:"start"`
	End         float64 `json:"end"`
	Text        string  `json:"text"`
	Tokens      []int32 `json:"tokens"`
	Temperature float64 `json:"temperature"`
	MeanLogprob float64 `json:"avg_logprob"`
	Compression float64 `json:"compression_ratio"`
	Silence     float64 `json:"no_speech_prob"`
}

func (r *Result) verbose(task string) verbose {
	v := verbose{Task: task, Language: LanguageName(r.Language), Duration: r.Duration, Text: r.Text}
	if r.Timeless {
		return v
	}
	if r.Worded {
		v.Words = []verboseWord{}
	}
	v.Segments = []verboseSegment{}
	for _, s := range r.Segments {
		v.Segments = append(v.Segments, verboseSegment{s.ID, s.Seek, s.Start, s.End, s.Text, s.Tokens,
			rounded(s.Temperature), s.MeanLogprob, s.Compression, s.Silence})
		for _, w := range s.Words {
			v.Words = append(v.Words, verboseWord{strings.TrimSpace(w.Text), w.Start, w.End})
		}
	}
	return v
}

// rounded is a temperature as it was given, before it was a float32.
func rounded(x float64) float64 { return math.Round(x*1e6) / 1e6 }

// Line returns the text of a segment as a line.
func (s *Segment) Line() string { return strings.TrimSpace(s.Text) + "\n" }
