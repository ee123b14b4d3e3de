package model

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/quern-llm/quern/go/kernel"
)

// What rank 0 tells the others: a byte, and what follows it. Passes need no answer, since their exchanges are one.
const (
	msgJoin   = 'J' // an invitation, as JSON; answered
	msgMemory = 'M' // limits, as JSON; answered
	msgPass   = 'P' // a batch: kernel.Batch.AppendTo
	msgOutput = 'O' // an output's number, then rows
	msgCopy   = 'C' // group, unit to, unit from
	msgPing   = 'I' // answered
	msgQuit   = 'Q'

	msgReady = 'R'
	msgError = 'E' // a line
)

// mostMessage is the most bytes of a message: batches have 4 for each token and KV block.
const mostMessage = 64 << 20

// An invitation says what ranks must agree on before they load the model.
type invitation struct {
	Version   string
	File      string // see File.identity
	KV        kernel.KVTypes
	Ctx       int
	Residency Residency
	Shares    []int
	Least     int
}

// limits are the sizes of the state that ranks have alike.
type limits struct {
	MaxTokens, MaxSeqs, MaxBlocks, MaxOut int
	Units                                 []int // of each group
}

// identity returns a hash of everything in the file but the tensors' data.
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
	return fmt.Sprintf("%x", h.Sum(nil))
}

// A Lead is rank 0's hold of the other ranks, which do what its Runner does. Ping and Copied are safe for concurrent use.
type Lead struct {
	mu    sync.Mutex // of what is told between passes
	group *kernel.Ranks
	msg   []byte
	room  []byte
	told  time.Time // when the others were told something
}

// ErrRank reports that another rank cannot take part. It wraps the reason, which names the rank.
var ErrRank = errors.New("the model cannot be divided among these ranks")

// Invite has the other ranks load their parts of the model, while the caller loads its own: see Ready.
func (s *Survey) Invite(version string, r Residency) (*Lead, error) {
	l := &Lead{group: s.ranks.Group, room: make([]byte, 4096)}
	return l, l.tell(msgJoin, invitation{
		Version: version, File: s.file.identity(), KV: s.kv, Ctx: s.Config.Ctx, Residency: r, Shares: s.ranks.Shares, Least: s.ranks.Least,
	})
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

// Ready waits until all other ranks have done what they were told, or for ctx. Otherwise the error is their line.
func (l *Lead) Ready(ctx context.Context) error {
	for r := 1; r < l.group.Count(); r++ {
		for {
			answer, err := l.group.Recv(r, l.room, time.Second)
			if errors.Is(err, kernel.ErrSilent) {
				if err = ctx.Err(); err == nil {
					continue
				}
			}
			if err != nil {
				return fmt.Errorf("rank %d: %w", r, err)
			}
			if len(answer) == 0 || answer[0] != msgReady {
				return fmt.Errorf("rank %d: %s: %w", r, answer[min(1, len(answer)):], ErrRank)
			}
			break
		}
	}
	return nil
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
	if err := l.send([]byte{msgPing}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := l.Ready(ctx); err != nil {
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

// Lead makes the other ranks do what the runner does, whose state has so many units in each group.
func (r *Runner) Lead(ctx context.Context, l *Lead, units []int) error {
	c := r.config
	err := l.tell(msgMemory, limits{MaxTokens: c.MaxTokens, MaxSeqs: c.MaxSeqs, MaxBlocks: c.MaxBlocks, MaxOut: c.MaxOut, Units: units})
	if err == nil {
		err = l.Ready(ctx)
	}
	r.lead = l
	return err
}

// pass tells the other ranks the batch.
func (l *Lead) pass(b *kernel.Batch) error {
	l.msg = b.AppendTo(append(l.msg[:0], msgPass))
	return l.send(l.msg)
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
