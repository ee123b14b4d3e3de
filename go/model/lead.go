package model

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/kvcache"
)

// What rank 0 tells the others: a byte, and what follows it. Passes need no answer, since their exchanges are one.
const (
	msgJoin   = 'J' // an invitation, as JSON; answered before anything is loaded
	msgLoad   = 'L' // answered with a holding, as JSON
	msgMemory = 'M' // limits, as JSON; answered
	msgPass   = 'P' // a batch: kernel.Batch.AppendTo
	msgOutput = 'O' // an output's number, then rows
	msgCopy   = 'C' // group, unit to, unit from
	msgPing   = 'I' // answered
	msgQuit   = 'Q'

	msgReady = 'R' // and what it is answered with
	msgBusy  = 'B' // the answer will come
	msgError = 'E' // a line
)

// mostMessage is the most bytes of a message: batches have 4 for each token and KV block.
const mostMessage = 64 << 20

// An invitation says what ranks must agree on before they load the model.
type invitation struct {
	Version  string
	File     string // see File.identity
	Division string // see Survey.division
	KV       kernel.KVTypes
	Ctx      int
	Use      Use // but for the threads, which are each rank's own
	Shares   []int
	Least    int
	Layers   bool
}

// A holding is what a rank has when its part of the model is there.
type holding struct {
	Free  uint64 // bytes for keys and values
	Units []int  // bytes of a unit of each group
}

// limits are the sizes of the state that ranks have alike.
type limits struct {
	MaxTokens, MaxSeqs, MaxBlocks, MaxOut int
	Units                                 []int // of each group
}

// identity returns a hash of everything in the file but the tensors' data, of which it takes a page of each. Where that
// is follows from the tensor's name.
func (f *File) identity() string {
	h := sha256.New()
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

// A Lead is rank 0's hold of the other ranks, which do what its Runner does. Ping and Copied are safe for concurrent use.
type Lead struct {
	mu    sync.Mutex // of what is told between passes
	group *kernel.Ranks
	msg   []byte
	room  []byte
	told  time.Time // when the others were told something

	flight *flight // nil: the others are in the same pass

	silence time.Duration // after which one that is to answer is lost
}

// ErrRank reports that another rank cannot take part. It wraps the reason, which names the rank.
var ErrRank = errors.New("the model cannot be divided among these ranks")

// Invite has the other ranks load their parts of the model, while the caller loads its own: see Loaded. Before, all have
// agreed that they have the same program and file, and the memory. The Lead is not nil where there is an error.
func (s *Survey) Invite(ctx context.Context, version string, u Use) (*Lead, error) {
	l := &Lead{group: s.ranks.Group, room: make([]byte, 8192), silence: mostSilence}
	if s.ranks.Layers {
		l.flight = &flight{done: make([]int, l.group.Count())}
		l.group.Patience(patienceOfLayers)
	}
	division, err := s.division(u.Residency)
	if err == nil {
		err = l.tell(msgJoin, invitation{
			Version: version, File: s.file.identity(), Division: division, KV: s.kv, Ctx: s.Config.Ctx, Use: u,
			Shares: s.ranks.Shares, Least: s.ranks.Least, Layers: s.ranks.Layers,
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
	err = l.ready(ctx, func(answer []byte) error {
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
	lists := slices.Concat([][]kernel.Op{f.program.Begin}, f.program.Encoder, f.program.Layers)
	for _, o := range f.program.Outputs {
		lists = append(lists, o.Ops)
	}
	for _, ops := range lists {
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

func (l *Lead) send(msg []byte) error {
	l.told = time.Now()
	if err := l.group.Failed(); err != nil {
		return err
	}
	return l.group.Send(kernel.Everyone, msg)
}

const (
	busyEvery   = time.Second      // that a rank says that it is busy
	mostSilence = 30 * time.Second // of one that does not
)

// ready waits until all other ranks have done what they were told, or for ctx. Otherwise the error is their line. What they
// answer with is given to take, which may be nil.
func (l *Lead) ready(ctx context.Context, take func(answer []byte) error) error {
	for r := 1; r < l.group.Count(); r++ {
		answer, err := l.answer(ctx, r)
		if err == nil && take != nil {
			err = take(answer)
		}
		if err != nil {
			return fmt.Errorf("rank %d: %w", r, err)
		}
	}
	return nil
}

// answer waits for a rank's answer.
func (l *Lead) answer(ctx context.Context, r int) ([]byte, error) {
	for heard := time.Now(); ; {
		answer, err := l.group.Recv(r, l.room, time.Second)
		switch {
		case errors.Is(err, kernel.ErrSilent) && ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, kernel.ErrSilent) && time.Since(heard) < l.silence:
		case err != nil:
			return nil, err
		case len(answer) > 0 && answer[0] == msgReady:
			return answer[1:], nil
		case len(answer) > 0 && answer[0] == msgBusy:
			if heard = time.Now(); ctx.Err() != nil {
				return nil, ctx.Err()
			}
		case len(answer) > 0 && answer[0] == msgDone:
			if err := l.flight.heard(l.group, r, answer[1:]); err != nil {
				return nil, err
			}
		default:
			return nil, fmt.Errorf("%s: %w", answer[min(1, len(answer)):], ErrRank)
		}
	}
}

// Ping finds out whether the other ranks are there, if they were told nothing for that long.
func (l *Lead) Ping(idle, patience time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
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

// Copied has the other ranks copy a unit of their own state as well.
func (l *Lead) Copied(group int, to, from int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	msg := append(l.msg[:0], msgCopy)
	for _, n := range []int32{int32(group), to, from} {
		msg = binary.LittleEndian.AppendUint32(msg, uint32(n))
	}
	l.msg = msg
	_ = l.send(msg) // the next exchange fails as well
}

// Quit ends the other ranks.
func (l *Lead) Quit() {
	if l != nil {
		_ = l.send([]byte{msgQuit}) // who is gone needs none
	}
}

// Dismiss ends the other ranks of a group that were not invited.
func Dismiss(g *kernel.Ranks) { (&Lead{group: g}).Quit() }

// Lead makes the other ranks do what the runner does, whose state has so many units in each group.
func (r *Runner) Lead(ctx context.Context, l *Lead, units []int) error {
	c := r.config
	err := l.tell(msgMemory, limits{MaxTokens: c.MaxTokens, MaxSeqs: c.MaxSeqs, MaxBlocks: c.MaxBlocks, MaxOut: c.MaxOut, Units: units})
	if err == nil {
		err = l.ready(ctx, nil)
	}
	r.lead = l
	return err
}

// pass tells the other ranks the batch.
func (l *Lead) pass(b *kernel.Batch) error {
	msg, err := b.AppendTo(append(l.msg[:0], msgPass))
	if err != nil {
		return err
	}
	l.msg = msg
	if err := l.makeRoom(); err != nil {
		return err
	}
	if l.flight != nil {
		l.flight.told++
	}
	return l.send(msg)
}

// output tells them which output of which rows is computed.
func (l *Lead) output(number int, rows []int32) {
	msg := append(l.msg[:0], msgOutput)
	msg = binary.LittleEndian.AppendUint32(msg, uint32(number))
	for _, r := range rows {
		msg = binary.LittleEndian.AppendUint32(msg, uint32(r))
	}
	l.msg = msg
	_ = l.send(msg) // the exchange of the result fails as well
}
