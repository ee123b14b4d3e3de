package hub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/quern-llm/quern/go/platform"
	"golang.org/x/sync/errgroup"
)

// A Stage is the current activity of a pull.
type Stage int

const (
	Waiting     Stage = iota // for another program that downloads the same file
	Checking                 // the heads of the files
	Downloading              //
	Finishing                // the last bytes are hashed, and the files get their names
)

// Progress is the progress of a pull.
type Progress struct {
	Stage Stage
	Files []FileProgress
}

// A FileProgress is the progress of a file.
type FileProgress struct {
	Name, URL, SHA256 string
	Done, Total       int64 // Total: -1 if it is not known
}

// Bytes returns the sums over the files; total is -1 if one is unknown.
func (p Progress) Bytes() (done, total int64) {
	for _, f := range p.Files {
		done += f.Done
		if total >= 0 {
			total += f.Total
		}
		if f.Total < 0 {
			total = -1
		}
	}
	return done, total
}

// Options are the options of a pull.
type Options struct {
	// Check is called with the path of a model's first file when only the headers of its files were
	// downloaded, and may refuse the model.
	Check func(path string) error
	// Progress is called a few times a second, by one goroutine at a time.
	Progress func(Progress)
	// Asked is the name that the user gave; the model can be found by it later.
	Asked string
}

// tickEvery is the interval between progress reports.
const tickEvery = 200 * time.Millisecond

// A pull is a running pull.
type pull struct {
	h     *Hub
	plan  *Plan
	parts []*part // in the order of the files; those of a file that is there twice are the same
	o     Options
}

// Pull downloads the files of a plan that are not in the cache. Errors name the model.
func (h *Hub) Pull(ctx context.Context, plan *Plan, o Options) (*Model, error) {
	for {
		m, err := h.pull(ctx, plan, o)
		if errors.Is(err, errGone) {
			continue
		}
		if err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return nil, fmt.Errorf("%s: %w", plan.Ref.Shown(), err)
		}
		return m, nil
	}
}

// errGone reports a file that was removed from the cache during the pull.
var errGone = errors.New("a file was removed from the cache meanwhile")

func (h *Hub) pull(ctx context.Context, plan *Plan, o Options) (*Model, error) {
	for _, dir := range []string{h.partial(), h.blobs()} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, diskError(err)
		}
	}
	p := &pull{h: h, plan: plan, o: o, parts: make([]*part, len(plan.Files))}
	defer p.close()
	if err := p.open(ctx); err != nil {
		return nil, err
	}
	if err := p.during(ctx, Checking, p.check); err != nil {
		return nil, err
	}
	if err := p.during(ctx, Downloading, p.download); err != nil {
		return nil, err
	}
	p.report(Finishing)
	return p.commit(ctx)
}

// open opens the files in the order of their keys, so that two pulls that share files cannot deadlock.
func (p *pull) open(ctx context.Context) error {
	order := make([]int, len(p.plan.Files))
	for i := range order {
		order[i] = i
	}
	files := p.plan.Files
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(files[a].key(), files[b].key()) })
	for n, i := range order {
		if n > 0 && files[order[n-1]].key() == files[i].key() {
			p.parts[i] = p.parts[order[n-1]]
			continue
		}
		part, err := p.h.openPart(ctx, &files[i], func() { p.report(Waiting) })
		if err != nil {
			return err
		}
		p.parts[i] = part
	}
	return nil
}

func (p *pull) close() {
	for _, part := range p.parts {
		if part != nil {
			part.close()
		}
	}
}

// each calls do for each file that is not in the cache.
func (p *pull) each(do func(*part) error) error {
	for i, part := range p.parts {
		if part.blob != "" || slices.Index(p.parts, part) < i {
			continue
		}
		if err := do(part); err != nil {
			return fmt.Errorf("%s: %w", part.f.Name(), err)
		}
	}
	return nil
}

// check downloads the headers and has them checked. A file of unknown size is downloaded in full first.
func (p *pull) check(ctx context.Context) error {
	need := uint64(0)
	_ = p.each(func(part *part) error {
		need += uint64(part.missing())
		return nil
	})
	if err := p.h.space(need); err != nil {
		return err
	}
	err := p.each(func(part *part) error {
		if part.f.Size < 0 {
			return part.finish(ctx)
		}
		return part.head(ctx)
	})
	if err != nil || p.o.Check == nil {
		return err
	}
	temp, err := os.MkdirTemp(p.h.partial(), ".check-*")
	if err != nil {
		return diskError(err)
	}
	defer os.RemoveAll(temp)
	var names, targets []string
	for i, part := range p.parts {
		target := part.blob
		if target == "" {
			target = part.path
		}
		names, targets = append(names, p.plan.Files[i].Name()), append(targets, target)
	}
	if err := link(temp, names, targets); err != nil {
		return diskError(err)
	}
	if err := p.o.Check(filepath.Join(temp, names[0])); err != nil {
		return errors.New(strings.ReplaceAll(err.Error(), temp+"/", "")) // the folder is nobody's concern
	}
	return nil
}

// space returns an error if the disk has less free space than needed.
func (h *Hub) space(need uint64) error {
	free, err := platform.FreeSpace(h.c.Dir)
	if err != nil {
		return fmt.Errorf("%s: %w", h.c.Dir, err)
	}
	const gb = 1e9
	if free < need {
		return fmt.Errorf("%s has %.2f GB free, and %.2f GB are to be downloaded; free some space, or name another folder with --model-cache", h.c.Dir, float64(free)/gb, float64(need)/gb)
	}
	return nil
}

func (p *pull) download(ctx context.Context) error {
	return p.each(func(part *part) error {
		if part.f.Size < 0 {
			return nil // it came before the check
		}
		return part.finish(ctx)
	})
}

// during runs a stage and reports the progress meanwhile.
func (p *pull) during(ctx context.Context, s Stage, do func(context.Context) error) error {
	p.report(s)
	err := meanwhile(ctx, tickEvery, func() { p.report(s) }, do)
	p.report(s)
	return err
}

// meanwhile calls tick at intervals until do returns; no call of tick is running after that. A panic of either is the
// error, and ends do.
func meanwhile(ctx context.Context, every time.Duration, tick func(), do func(context.Context) error) error {
	group, ctx := errgroup.WithContext(ctx)
	done := make(chan struct{})
	spawn(group, func() error {
		t := time.NewTicker(every)
		defer t.Stop()
		for {
			select {
			case <-done:
				return nil
			case <-t.C:
				tick()
			}
		}
	})
	spawn(group, func() error {
		defer close(done)
		return do(ctx)
	})
	return group.Wait()
}

func (p *pull) report(s Stage) {
	if p.o.Progress == nil {
		return
	}
	r := Progress{Stage: s}
	for i, part := range p.parts {
		f := &p.plan.Files[i]
		one := FileProgress{Name: f.Name(), URL: f.URL, SHA256: f.SHA256, Total: f.Size}
		switch {
		case part == nil:
		case part.blob != "":
			one.Done = max(f.Size, 0)
		default:
			one.Done = part.got.Load()
		}
		r.Files = append(r.Files, one)
	}
	p.o.Progress(r)
}

// commit gives the files and the model their names.
func (p *pull) commit(ctx context.Context) (*Model, error) {
	unlock, err := p.h.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	m := &Model{
		Name: p.plan.Ref.String(), Source: p.plan.Ref.String(), Revision: p.plan.Revision,
		Pulled: time.Now().UTC().Truncate(time.Second), Persona: p.plan.Persona, Skipped: p.plan.Skipped,
	}
	for i, part := range p.parts {
		f := &p.plan.Files[i]
		if part.blob == "" {
			if err := part.publish(); err != nil {
				return nil, err
			}
		}
		info, err := os.Stat(part.blob)
		if err != nil {
			return nil, errGone
		}
		m.Files = append(m.Files, ModelFile{
			Name: f.Name(), Size: info.Size(), SHA256: strings.TrimPrefix(filepath.Base(part.blob), "sha256-"), URL: f.URL, Validator: f.Validator,
		})
	}
	if before := p.before(m.Name); before != nil {
		m.Asked = slices.DeleteFunc(before.Asked, func(a string) bool { return !m.mayBe(a) })
	}
	if a := p.o.Asked; a != "" && a != m.Name && !slices.Contains(m.Asked, a) && len(m.Asked) < 32 {
		m.Asked = append(m.Asked, a)
	}
	if err := p.h.write(m); err != nil {
		return nil, err
	}
	_, _ = p.h.collect() // what an earlier revision had; where a model cannot be read it stays
	return m, nil
}

// before returns the model as it was before this pull; nil if it was not in the cache.
func (p *pull) before(name string) *Model {
	m, err := readModel(p.h.manifestPath(name))
	if err != nil {
		return nil
	}
	return m
}

// publish gives a complete file its final name.
func (p *part) publish() error {
	if err := p.file.Chmod(0o444); err != nil {
		return err
	}
	blob := p.h.blob(p.sum)
	if err := platform.Replace(p.path, blob); err != nil {
		return err
	}
	p.blob = blob
	if err := os.Remove(p.record()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
