package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quern-llm/quern/go/finetune"
	"github.com/quern-llm/quern/go/internal/newfile"
)

// checkpoint returns the file that a run is saved to.
func (f *finetuneFlags) checkpoint() string {
	return filepath.Clean(f.out) + ".checkpoint.safetensors"
}

// isPEFT reports whether OUT is a folder.
func (f *finetuneFlags) isPEFT() bool {
	return f.out != "" && !strings.EqualFold(filepath.Ext(f.out), ".gguf")
}

// outputs returns the files of the adapter, beside those of a folder that is yet to be made.
func (f *finetuneFlags) outputs() []string {
	if !f.isPEFT() {
		return []string{f.out}
	}
	if _, err := os.Stat(f.out); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return finetune.PEFT(f.out)
}

// beside returns the files that are written beside OUT, and replaced.
func (f *finetuneFlags) beside() []string {
	return slices.DeleteFunc(append(f.target.outputs(f), f.checkpoint(), f.plot, f.log), func(path string) bool { return path == "" })
}

// written returns all that is written, of a folder also its files that may be there.
func (f *finetuneFlags) written() []string {
	all := append(f.beside(), f.out)
	if f.isPEFT() {
		all = append(all, f.outputs()...)
	}
	return all
}

// checkOutputs returns an error for a file that cannot be written, before hours are spent.
func (f *finetuneFlags) checkOutputs() error {
	if f.out == "" {
		return nil
	}
	if info, err := os.Stat(f.out); err == nil && f.isPEFT() && !info.IsDir() {
		return fmt.Errorf("%s is no folder; an adapter in GGUF has a name such as FILE.gguf", f.out)
	}
	for _, path := range f.outputs() {
		if err := newfile.Check(path, f.force); err != nil {
			return f.replaceable(err)
		}
	}
	if err := checkApart(f.written(), slices.Concat(f.data, f.held, []string{f.template.file, f.shape, f.classes.file()})); err != nil {
		return err
	}
	for _, path := range f.beside() {
		if err := newfile.Check(path, true); err != nil {
			return err
		}
	}
	for _, path := range append(f.target.outputs(f), f.checkpoint()) {
		if _, err := os.Stat(path); err == nil && !f.resume && !f.force && !f.dryRun {
			return fmt.Errorf("%s is a run that was saved; --resume goes on with it, --force begins anew", path)
		}
	}
	return nil
}

func (f *finetuneFlags) replaceable(err error) error {
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w; --force replaces it", err)
	}
	return err
}

// draw writes the files of --plot and --log.
func (f *finetuneFlags) draw(job *finetune.Job) error {
	if f.plot != "" {
		title := filepath.Base(f.out)
		if _, err := newfile.Write(f.plot, true, 0o644, 0, func(w io.Writer) (int64, error) {
			return finetune.WriteSVG(w, title, job.Points)
		}); err != nil {
			return err
		}
	}
	if f.log == "" {
		return nil
	}
	_, err := newfile.Write(f.log, true, 0o644, 0, func(w io.Writer) (int64, error) { return finetune.WriteCSV(w, job.Points) })
	return err
}

// salvage writes the best adapter of a run that failed for err, if it was measured.
func (f *finetuneFlags) salvage(ctx context.Context, job *finetune.Job, err error) error {
	if job.Every == 0 || job.BestStep == 0 {
		return err
	}
	if _, failed := f.write(ctx, job); failed != nil {
		return errors.Join(err, failed)
	}
	return fmt.Errorf("%w; %s is the best until then, of step %d", err, f.out, job.BestStep)
}

// write writes the adapter, or the model.
func (f *finetuneFlags) write(ctx context.Context, job *finetune.Job) (int64, error) {
	switch {
	case f.merges(job) && f.target.model != "":
		return f.writeDrafter(ctx, job)
	case f.merges(job):
		return f.writeClassifier(ctx, job)
	case f.isPEFT():
		return job.WritePEFT(f.out, cmp.Or(f.base, f.model), f.force)
	}
	return job.WriteGGUF(f.out, f.force, 0o644)
}

// finish writes the adapter. Where that fails the run is saved, so that nothing of it is lost.
func (f *finetuneFlags) finish(cmd *cobra.Command, job *finetune.Job, save func() error) error {
	n, err := f.write(cmd.Context(), job)
	if err != nil {
		if save() == nil {
			err = fmt.Errorf("%w; the run is saved, and the same command with --resume writes it", err)
		}
		return f.replaceable(err)
	}
	if err := f.draw(job); err != nil {
		return err
	}
	for _, path := range append(f.target.outputs(f), f.checkpoint()) {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := f.summary(cmd.Context(), cmd.OutOrStdout(), job, n); err != nil || f.target.model == "" {
		return err
	}
	return f.draftSummary(cmd, job)
}
