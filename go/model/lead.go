package model

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/model/nn"
)

// What rank 0 tells the others: a byte, and what follows it. Passes need no answer, since their exchanges are one.
const (
	msgJoin    = 'J' // an invitation, as JSON; answered before anything is loaded
	msgLoad    = 'L' // answered with a holding, as JSON
	msgMemory  = 'M' // limits, as JSON; answered
	msgPing    = 'I' // answered
	msgSleep   = 'S' // the weights are released; answered
	msgWake    = 'V' // a Use, as JSON: they are loaded again; answered
	msgClose   = 'C' // the model is released: another may be loaded
	msgQuit    = 'Q'
	msgMeasure = 'X' // all measure their exchanges

	msgPass   = 'P' // how many parts the pass has, where each ends, and a batch: kernel.Batch.AppendTo
	msgOutput = 'O' // an output's number, then rows
	msgKeep   = 'K' // the tokens that follow those of the pass: Runner.KeepNext
	msgStep   = 'N' // a step of the layer that drafts: Runner.StepNext

	msgUnits = 'U' // group, unit, and the one that it is a copy of, or -1: its pages are released; any number of these
	msgMove  = 'T' // a kvcache.Shift: see Lead.Moved
	msgAge   = 'A' // from group and unit, to group and unit; any number of these
	msgRead  = 'G' // group and unit, any number of these; answered with their contents
	msgWrite = 'W' // group and unit, which mostWritten bytes of it, and what these are from now on

	msgFile     = 'F' // lengths of the shards of an adapter's file, as JSON
	msgPart     = 'D' // its next bytes
	msgAdapter  = 'E' // the number of the adapter whose file that was; answered
	msgAdapters = 'Y' // numbers of those that batches may have from the next message on; answered
	msgAdapted  = 'Z' // whether they do, 1 or 0: then those that were loaded for it are dropped

	msgReady = 'R' // the number of the question, and what it is answered with
	msgBusy  = 'B' // the answer will come
	msgDone  = 'H' // a pass is done, where ranks have layers each: how long it has computed and waited so far, in ns; no answer
	msgError = '!' // the number of the question, and a line
)

// mostMessage is the most bytes of a message: batches have 4 for each token and KV block. Of rows there may be more: see
// Follower.run.
const mostMessage = 64 << 20

// An invitation says what ranks must agree on before they load the model.
type invitation struct {
	First    uint32 // the number of this question; those that follow count on
	Version  string
	File     string // see File.identity
	Division string // see Survey.division
	KV       kernel.KVTypes
	Tiers    []nn.Tier
	Ctx      int
	Fine     bool // Survey.Finer
	Media    bool // Survey.Seeing
	Head     bool // File.DraftBy
	Drafts   bool // Survey.Drafting
	Use      Use  // but for the threads, which are each rank's own
	Shares   []int
	Least    int
	Layers   bool
}

// A holding is what a rank has when its part of the model is there.
type holding struct {
	Free     uint64 // bytes for keys and values
	Units    []int  // bytes of a unit of each group
	Computed []byte // Model.ComputedHash
}

// limits are the sizes of the state that ranks have alike.
type limits struct {
	MaxTokens, MaxSeqs, MaxBlocks, MaxOut int
	Units                                 []int // of each group
	Moves, Shifts                         bool  // Model.NewMover
}

// Identity returns a hash of everything but the tensors' data, of which it takes a page of each.
func (f *File) Identity() string { return f.identity() }

// identity returns a hash of everything in the file but the tensors' data, of which it takes a page of each. Where that
// is follows from the tensor's name.
func (f *File) identity() string {
	h := sha256.New()
	if f.remote != nil {
		fmt.Fprintf(h, "%q\n", f.Version())
		return fmt.Sprintf("%x", h.Sum(nil))
	}
	for i, r := range f.regions {
		end := len(r.Bytes())
		for _, t := range f.GGUF.Tensors {
			if t.Shard == i {
				end = min(end, int(t.Offset))
			}
		}
		h.Write(r.Bytes()[:end])
		fmt.Fprint(h, len(r.Bytes()))
	}
	for _, t := range f.GGUF.Tensors {
		const page = 4096
		name := fnv.New64a()
		io.WriteString(name, t.Name)
		from := int(name.Sum64()%uint64(max(len(t.Data)/page, 1))) * page
		h.Write(t.Data[from:min(from+page, len(t.Data))])
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// given returns a hash of the file and of the metadata that it was given in place of its own.
func (f *File) given() string {
	h := sha256.New()
	fmt.Fprintln(h, f.identity())
	for _, kv := range f.GGUF.KVs {
		switch kv.Value.(type) {
		case string, bool, int8, uint8, int16, uint16, int32, uint32, int64, uint64, float32, float64: // what is given is one of these
			fmt.Fprintf(h, "%q %v\n", kv.Key, kv.Value)
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// A Lead is rank 0's hold of the other ranks, which do what its Runner does. Its methods are called in the device's turn, by
// one goroutine at a time, but Copied and Discarded, which are safe for concurrent use: the others are told of what these
// note before anything else.
type Lead struct {
	group *kernel.Ranks
	msg   []byte
	room  []byte
	told  time.Time // when the others were told something
	asked uint32    // the number of the last question: answers to others, which nobody waited for, are dropped
	bytes [][]int   // by rank, of a unit of each group
	made  [][]byte  // by rank, the hash of what it computed from its weights; that of rank 0 is empty

	mu    sync.Mutex // of what is noted
	noted []byte     // a msgUnits

	flight *flight // nil: the others are in the same pass

	silence time.Duration // after which one that is to answer is lost
}

// ErrRank reports that another rank cannot take part. It wraps the reason, which names the rank.
var ErrRank = errors.New("the model cannot be divided among these ranks")

// Invite has the other ranks load their parts of the model, while the caller loads its own: see Loaded. Before, all have
// agreed that they have the same program and file, and the memory. The Lead is not nil where there is an error.
func (s *Survey) Invite(ctx context.Context, version string, u Use) (*Lead, error) {
	l := &Lead{group: s.ranks.Group, room: make([]byte, 8192), silence: mostSilence, asked: rand.Uint32()}
	if s.ranks.Layers {
		l.flight = &flight{done: make([]int, l.group.Count())}
		l.group.Patience(patienceOfLayers)
	}
	division, err := s.division(u.Residency)
	if err == nil {
		err = l.tell(msgJoin, invitation{
			First: l.asked + 1, Version: version, File: s.file.identity(), Division: division, KV: s.kv, Tiers: s.tiers, Ctx: s.Config.Ctx,
			Fine: s.Config.Fine, Media: s.Config.Media, Head: s.Config.Head.Arch != "", Drafts: s.Config.Drafts, Use: u,
			Shares: s.ranks.Shares, Least: s.ranks.Least,
			Layers: s.ranks.Layers,
		})
	}
	if err == nil {
		err = l.ready(ctx, nil)
	}
	if err == nil {
		err = l.send([]byte{msgLoad})
	}
	return l, err
}

// Loaded waits until the others have loaded their parts, and returns how many bytes of keys and values of this rank, with
// this layout, are those that all others have memory for.
func (l *Lead) Loaded(ctx context.Context, mine kvcache.Layout) (least uint64, err error) {
	least = math.MaxInt64
	l.bytes, l.made = [][]int{{}}, [][]byte{{}}
	for _, g := range mine {
		l.bytes[0] = append(l.bytes[0], g.Bytes)
	}
	err = l.ready(ctx, func(_ int, answer []byte) error {
		var has holding
		if err := json.Unmarshal(answer, &has); err != nil {
			return err
		}
		if len(has.Units) != len(mine) {
			return fmt.Errorf("it has %d groups of state, rank 0 has %d", len(has.Units), len(mine))
		}
		for i, g := range mine {
			if theirs := uint64(max(has.Units[i], 1)); has.Free/theirs < least/uint64(g.Bytes) {
				least = has.Free / theirs * uint64(g.Bytes)
			}
		}
		l.bytes, l.made = append(l.bytes, has.Units), append(l.made, has.Computed)
		return nil
	})
	return least, err
}

// division returns a hash of how the model is divided: of the operations, and of what ranks exchange and where it is cut.
// It is the same on all ranks.
func (s *Survey) division(r Residency) (string, error) {
	f, err := s.find(r)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	for _, ops := range f.program.Lists() {
		for _, op := range ops {
			if !s.ranks.Layers { // of which each rank has others
				fmt.Fprintf(h, "%T", op)
			}
			if share, ok := op.(kernel.Share); ok {
				fmt.Fprintln(h, share.Rows, share.To, share.Step)
				for _, p := range share.Parts {
					fmt.Fprintln(h, p.Dst, p.Kind, p.Cut)
				}
			}
		}
		fmt.Fprintln(h)
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}

// tell sends a message in JSON to all.
func (l *Lead) tell(kind byte, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return l.send(append([]byte{kind}, text...))
}

func (l *Lead) send(msg []byte) error { return l.sendTo(kernel.Everyone, msg) }

// sendTo sends a message to a rank, or to Everyone, after what was noted for all.
func (l *Lead) sendTo(to int, msg []byte) error {
	l.told = time.Now()
	if err := l.group.Failed(); err != nil {
		return err
	}
	l.mu.Lock()
	noted := l.noted
	l.noted = nil
	l.mu.Unlock()
	if len(noted) > 0 {
		if err := l.group.Send(kernel.Everyone, noted); err != nil {
			return err
		}
	}
	return l.group.Send(to, msg)
}

// words sends numbers to all.
func (l *Lead) words(kind byte, lists ...[]int32) error {
	msg := append(l.msg[:0], kind)
	for _, list := range lists {
		for _, n := range list {
			msg = binary.LittleEndian.AppendUint32(msg, uint32(n))
		}
	}
	l.msg = msg
	return l.send(msg)
}

// ask sends a message to all and waits until they have done what it says.
func (l *Lead) ask(ctx context.Context, kind byte, body any) error {
	err := l.tell(kind, body)
	if err == nil {
		err = l.ready(ctx, nil)
	}
	return err
}

const (
	busyEvery   = time.Second      // that a rank says that it is busy
	mostSilence = 30 * time.Second // of one that does not
)

// ready waits until all other ranks have done what they were told, or for ctx. Otherwise the error is the line of the first
// that has not; the others have answered as well. What they answer with is given to take, which may be nil.
func (l *Lead) ready(ctx context.Context, take func(rank int, answer []byte) error) (first error) {
	l.asked++
	for r := 1; r < l.group.Count(); r++ {
		answer, err := l.answer(ctx, r)
		if err == nil && take != nil {
			err = take(r, answer)
		}
		if err != nil {
			first = cmp.Or(first, fmt.Errorf("rank %d: %w", r, err))
		}
		if err != nil && !errors.Is(err, ErrRank) {
			break
		}
	}
	return first
}

// answer waits for a rank's answer.
func (l *Lead) answer(ctx context.Context, r int) ([]byte, error) {
	var long error
	for heard := time.Now(); ; {
		answer, err := l.group.Recv(r, l.room, time.Second)
		switch {
		case errors.Is(err, kernel.ErrSilent) && ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, kernel.ErrSilent) && time.Since(heard) < l.silence:
		case errors.Is(err, kernel.ErrLong):
			long = err // it is gone: an answer to another question, of units, for which another Lead had room
		case err != nil:
			return nil, cmp.Or(long, err)
		case len(answer) >= 5 && answer[0] != msgBusy && answer[0] != msgDone && binary.LittleEndian.Uint32(answer[1:]) != l.asked:
		case len(answer) >= 5 && answer[0] == msgReady:
			return answer[5:], nil
		case len(answer) > 0 && answer[0] == msgBusy:
			if heard = time.Now(); ctx.Err() != nil {
				return nil, ctx.Err()
			}
		case len(answer) > 0 && answer[0] == msgDone:
			if err := l.flight.heard(l.group, r, answer[1:]); err != nil {
				return nil, err
			}
		default:
			return nil, fmt.Errorf("%s: %w", answer[min(5, len(answer)):], ErrRank)
		}
	}
}

// Ping finds out whether the other ranks are there, if they were told nothing for that long.
func (l *Lead) Ping(idle, patience time.Duration) error {
	if err := l.group.Failed(); err != nil {
		return err
	}
	if time.Since(l.told) < idle {
		return nil
	}
	if flying, err := l.flying(); flying {
		if err != nil {
			l.group.Break()
		}
		return err
	}
	if err := l.send([]byte{msgPing}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := l.ready(ctx, nil); err != nil {
		l.group.Break()
		return err
	}
	return nil
}

// Close has the other ranks release the model: they may be invited to another.
func (l *Lead) Close() {
	if l == nil {
		return
	}
	l.land()                     // or who leads next would hear of these passes
	_ = l.send([]byte{msgClose}) // who is gone needs none
}

// Dismiss ends the other ranks of a group that have no model.
func Dismiss(g *kernel.Ranks) { _ = (&Lead{group: g}).send([]byte{msgQuit}) }

// Lead makes the other ranks do what the runner does, whose state has so many units in each group. Units are moved, and
// shifted, if a Mover does so here.
func (r *Runner) Lead(ctx context.Context, l *Lead, units []int, moves, shifts bool) error {
	c := r.config
	err := l.ask(ctx, msgMemory, limits{
		MaxTokens: c.MaxTokens, MaxSeqs: c.MaxSeqs, MaxBlocks: c.MaxBlocks, MaxOut: c.MaxOut, Units: units, Moves: moves, Shifts: shifts,
	})
	r.lead = l
	return err
}

// Sleep has the other ranks release their weights.
func (l *Lead) Sleep(ctx context.Context) error { return l.ask(ctx, msgSleep, nil) }

// Wake has the other ranks load their weights again, while the caller loads its own: see Woken.
func (l *Lead) Wake(u Use) error { return l.tell(msgWake, u) }

// Woken waits until they have done so.
func (l *Lead) Woken(ctx context.Context) error { return l.ready(ctx, nil) }

// LedBy makes the other ranks, which have woken, do what a new runner does.
func (r *Runner) LedBy(l *Lead) { r.lead = l }
