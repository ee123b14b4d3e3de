package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/quern-llm/quern/go/finetune"
	"github.com/quern-llm/quern/go/internal/usage"
	"github.com/quern-llm/quern/go/launch"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/train/data"
)

// classesFlag is the flag for the classes of a new classifier.
type classesFlag struct {
	from string      // FILE, or a list; empty: no classifier is made
	base *model.File // that it is added to
}

func (c *classesFlag) define(fs *pflag.FlagSet) {
	fs.StringVar(&c.from, "classes", "", "train a new classifier of texts for a model without one: the classes, `NAMES` with commas between them, or a file with one in each line; OUT is a model")
}

// file returns the file that has the classes, if one has.
func (c *classesFlag) file() string {
	if strings.Contains(c.from, ",") {
		return ""
	}
	return c.from
}

// check reads the classes.
func (c *classesFlag) check(f *finetuneFlags) error {
	switch {
	case c.from == "":
		return nil
	case f.target.model != "" || f.target.head != "":
		return usagef("--classes is of a classifier, and what drafts has none; leave one of them out")
	case f.isPEFT():
		return usagef("--classes: OUT is a model; give a FILE.gguf with -o")
	case f.objective != autoObjective:
		return usagef("--classes: labels are learnt, and --objective %s is of answers", f.objective)
	}
	where, names := "--classes", strings.Split(c.from, ",")
	if path := c.file(); path != "" {
		where = path
		text, err := readClasses(path)
		if err != nil {
			return err
		}
		names = strings.Split(text, "\n")
	}
	var all []string
	for _, name := range names {
		if name = strings.TrimSpace(name); name != "" || c.file() == "" {
			all = append(all, name)
		}
	}
	of := model.NewClasses{Names: all}
	if err := of.Check(); err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	f.settings.Classes = all
	return nil
}

// mostClassBytes is the most that a file of classes has.
const mostClassBytes = 2 << 20

func readClasses(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("--classes: %w; a list has commas between names", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, mostClassBytes+1))
	if err == nil && len(text) > mostClassBytes {
		err = fmt.Errorf("%s: more than %d bytes, which are no names of classes", path, mostClassBytes)
	}
	return string(text), err
}

// head opens the model, and gives it the classifier. The examples say whether a text may be of several classes.
func (c *classesFlag) head(f *finetuneFlags, s launch.Settings) (_ *launch.Head, err error) {
	if f.known, err = data.Read(f.data, data.Format(f.format)); err != nil {
		return nil, err
	}
	if all := f.known.Compared; len(all) == 0 || !all[0].Classed {
		return nil, errors.New("--classes is of texts with labels, and --data has others")
	}
	head, err := f.files.ReadHead(f.model, s)
	if err != nil {
		return nil, err
	}
	several := slices.ContainsFunc(f.known.Compared, func(x data.Comparison) bool { return x.Several })
	err = head.File.Classify(model.NewClasses{Names: f.settings.Classes, Several: several, Seed: f.settings.Seed})
	if err == nil {
		head.Config, err = head.File.Config()
	}
	if err != nil {
		head.Close()
		return nil, fmt.Errorf("--classes: %s: %w", f.model, err)
	}
	c.base = head.File
	return head, nil
}

// writeClassifier writes the model with the classifier, and with the adapter in it, if there is one.
func (f *finetuneFlags) writeClassifier(ctx context.Context, job *finetune.Job) (int64, error) {
	return f.writeMerged(ctx, job, f.classes.base)
}

// Classes that are shown, at most, and how many times more of one there are than of another where that is said.
const (
	mostShownClasses = 32
	unbalanced       = 10
)

// showClasses says how many examples there are of each class.
func showClasses(w io.Writer, all []finetune.Class) {
	if len(all) == 0 {
		return
	}
	var parts, none []string
	rare, often := all[0], all[0]
	for _, c := range all {
		parts = append(parts, fmt.Sprintf("%s %d (%d)", visible(c.Name), c.Learnt, c.Held))
		if c.Learnt == 0 {
			none = append(none, visible(c.Name))
		}
		if c.Learnt < rare.Learnt {
			rare = c
		}
		if c.Learnt > often.Learnt {
			often = c
		}
	}
	fmt.Fprintf(w, "classes, with their examples (of those held out): %s\n", shortened(parts, ", "))
	switch {
	case len(none) > 0:
		fmt.Fprintf(w, "nothing is learnt of classes without examples: %s\n", shortened(none, ", "))
	case often.Learnt >= unbalanced*rare.Learnt:
		fmt.Fprintf(w, "classes are out of balance: %s has %d examples, %s %d; texts of rare classes are often taken for others\n",
			visible(often.Name), often.Learnt, visible(rare.Name), rare.Learnt)
	}
}

// shortened joins parts, and says how many are left out of many.
func shortened(parts []string, between string) string {
	if n := len(parts) - mostShownClasses; n > 0 {
		return strings.Join(parts[:mostShownClasses], between) + fmt.Sprintf("%sand %d more", between, n)
	}
	return strings.Join(parts, between)
}

// showConfusion says how examples that are held out are classified. The model is written: where that cannot be counted, it is said.
func showConfusion(ctx context.Context, w io.Writer, job *finetune.Job) {
	if !job.CanConfuse() {
		return
	}
	all, err := job.Confusion(ctx)
	if err != nil {
		if ctx.Err() == nil {
			fmt.Fprintf(w, "examples that are held out could not be classified: %s\n", usage.OneLine(err))
		}
		return
	}
	var lines []string
	for _, c := range all {
		if c.Held == 0 && c.Wrong == 0 || len(all) > mostShownClasses && c.Right == c.Held && c.Wrong == 0 {
			continue
		}
		line := fmt.Sprintf("  %s: %d of %d right", visible(c.Name), c.Right, c.Held)
		if c.Times > 0 {
			line += fmt.Sprintf(", %d taken for %s", c.Times, visible(c.Rather))
		}
		if c.Wrong > 0 {
			line += fmt.Sprintf("; %d of others taken for it", c.Wrong)
		}
		lines = append(lines, line)
	}
	fmt.Fprintf(w, "held-out examples by class:\n%s\n", shortened(lines, "\n"))
}
