// Package ranks joins processes that are to be ranks of one model, over TCP: each process but rank 0 has a line to rank 0,
// on which both prove that they have the same token, and learn the addresses at which the transport of the ranks reaches
// all. The lines stay, and by them the ranks notice within seconds that one is gone, whatever they are doing.
//
// Anyone may connect to the port of a rank that waits for others and send anything: until a connection has proved the
// token, it has a few bytes and seconds.
package ranks

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/quern-llm/quern/go/platform"
)

// Max is the maximum number of ranks of a group.
const Max = 64

// A Config is what all kinds of joining have in common.
type Config struct {
	Version string // of the program: that of all ranks is the same
	Token   []byte // that all ranks have; empty: everybody may join who reaches the port
	// Open opens this process for the others, on these devices of the network (empty: any), and returns its address. It is
	// called again where rank 0 has gone before all had joined.
	Open func(devices []string) (address []byte, err error)
	// Note is called with what an operator wants to know: who is waited for, and who was turned away. It may be nil.
	Note func(line string)
}

func (c *Config) note(format string, args ...any) {
	if c.Note != nil {
		c.Note(fmt.Sprintf(format, args...))
	}
}

// ErrLost reports that another rank has ended, or cannot be reached.
var ErrLost = errors.New("the line to it is lost")

// A refusal says that the other side and this one do not belong together: to try again does not help.
type refusal struct{ error }

func refusef(format string, args ...any) error { return refusal{fmt.Errorf(format, args...)} }

// A Group is a process's place among ranks that have joined, with its lines to the others.
type Group struct {
	Rank      int
	Addresses [][]byte // of all ranks
	Near      []bool   // whether each is on this machine, as it is on theirs

	lines []*line // rank 0: to rank i+1; otherwise to rank 0
	once  sync.Once
}

// Count returns how many ranks there are.
func (g *Group) Count() int { return len(g.Addresses) }

// Watch calls lost, once, when a rank that has a line to this one has ended or said nothing for 4 seconds; leaving, on
// rank 0, with each rank that asks for the end of the group; and over, on the others, when rank 0 has ended in order, which
// may be before it has told them so by the transport. They are called from other goroutines: lost until Unwatch, the others
// until Close.
func (g *Group) Watch(lost func(error), leaving func(rank int), over func()) {
	for i, l := range g.lines {
		rank := 0
		if g.Rank == 0 {
			rank = i + 1
		}
		go func() {
			for {
				kind, text, err := l.next(context.Background())
				switch {
				case err != nil:
					g.once.Do(func() { lost(fmt.Errorf("rank %d: %w", rank, err)) })
					return
				case kind == frameBye:
					if g.Rank > 0 {
						over()
					}
					return
				case kind == frameFailed:
					time.Sleep(graceTime)
					g.once.Do(func() { lost(fmt.Errorf("rank %d: %.1000q", rank, text)) })
					return
				case kind == frameLeaving && g.Rank == 0:
					leaving(rank)
				}
			}
		}()
	}
}

// Unwatch has Watch call lost no more. If it runs, it is waited for.
func (g *Group) Unwatch() { g.once.Do(func() {}) }

// Leave asks rank 0 to end the group. It ends it once what it has begun is done.
func (g *Group) Leave() {
	for _, l := range g.lines {
		_ = l.send(frameLeaving, nil) // what is lost is watched
	}
}

// graceTime is what others have, once this process says that it fails, to read what it has told them by the transport.
const graceTime = time.Second

// Fail tells the others why this process ends.
func (g *Group) Fail(why error) {
	text := why.Error()
	for _, l := range g.lines {
		_ = l.send(frameFailed, []byte(text[:min(len(text), 1000)]))
	}
}

// Close tells the others that this process ends in order.
func (g *Group) Close() {
	g.Unwatch()
	for _, l := range g.lines {
		_ = l.send(frameBye, nil)
		l.close(nil)
	}
}

// What is sent once both have proved the token, as JSON.
type (
	// An offer is rank 0's: a place in a group.
	offer struct {
		Version     string
		Rank, Ranks int
	}
	// An acceptance has the address at which the transport of this rank reaches it, or why it does not take part.
	acceptance struct {
		Version string
		Address []byte
		Machine string // see machine
		Error   string
	}
	// A roster is the addresses of all, and their machines.
	roster struct {
		Addresses [][]byte
		Machines  []string
	}
)

// offerTime is how long the other side may take for an answer that needs no other rank.
const offerTime = 10 * time.Second

// Dial joins ranks that wait at these addresses: this process is rank 0, and they are 1, 2 and so on. It waits for those
// that cannot be reached yet, as long as ctx lasts.
func Dial(ctx context.Context, c Config, addresses []string) (*Group, error) {
	for {
		try, cancel := context.WithCancel(ctx)
		lines := make([]*line, len(addresses))
		err := each(len(addresses), cancel, func(i int) (err error) {
			lines[i], err = c.dial(try, addresses[i], roleLead, fmt.Sprintf("rank %d", i+1))
			return err
		})
		cancel()
		var g *Group
		if err == nil {
			g, err = c.lead(lines)
		}
		if err == nil {
			return g, nil
		}
		hangUp(lines, err)
		if !errors.Is(err, ErrLost) {
			return nil, err
		}
		c.note("%v: joining again", err)
		if err := pause(ctx, time.Second); err != nil {
			return nil, err
		}
	}
}

// Gather waits at an address until so many others have joined: this process is rank 0, and the others are numbered as they
// come.
func Gather(ctx context.Context, c Config, address string, others int) (*Group, error) {
	d, err := c.open(address, roleLead)
	if err != nil {
		return nil, err
	}
	defer d.close()
	c.note("waiting at %s for %d ranks to join", d.listener.Addr(), others)
	var lines []*line
	for {
		for len(lines) < others {
			l, err := d.next(ctx)
			if err != nil {
				hangUp(lines, err)
				return nil, err
			}
			lines = append(lines, l)
			lines = slices.DeleteFunc(lines, func(l *line) bool { return l.err() != nil }) // who went again
			c.note("%s has joined, %d of %d", l.conn.RemoteAddr(), len(lines), others)
		}
		g, err := c.lead(lines)
		if err == nil {
			return g, nil
		}
		hangUp(lines, err)
		if !errors.Is(err, ErrLost) {
			return nil, err
		}
		c.note("%v: waiting for others", err)
		lines = nil
	}
}

// lead makes a group of lines that are there, of which this process is rank 0.
func (c *Config) lead(lines []*line) (*Group, error) {
	n := len(lines) + 1
	all := roster{make([][]byte, n), make([]string, n)}
	err := each(len(lines), func() {}, func(i int) error {
		var a acceptance
		err := lines[i].tell(frameOffer, offer{Version: c.Version, Rank: i + 1, Ranks: n})
		if err == nil {
			err = lines[i].hear(frameAcceptance, &a, offerTime)
		}
		if err == nil && a.Error != "" {
			err = refusef("%s", a.Error)
		}
		if err == nil && len(a.Address) == 0 {
			err = refusef("it has no address")
		}
		if err != nil {
			return fmt.Errorf("rank %d (%s): %w", i+1, lines[i].conn.RemoteAddr(), err)
		}
		all.Addresses[i+1], all.Machines[i+1] = a.Address, a.Machine
		return nil
	})
	if err != nil {
		return nil, err
	}
	if all.Addresses[0], err = c.Open(c.devices(lines...)); err != nil {
		return nil, err
	}
	all.Machines[0] = platform.MachineID()
	for i, l := range lines {
		if err := l.tell(frameRoster, all); err != nil {
			return nil, fmt.Errorf("rank %d: %w", i+1, err)
		}
	}
	return all.group(0, lines), nil
}

// Wait waits at an address for rank 0, and then for the others of its group.
func Wait(ctx context.Context, c Config, address string) (*Group, error) {
	d, err := c.open(address, roleFollow)
	if err != nil {
		return nil, err
	}
	defer d.close()
	c.note("waiting at %s for rank 0", d.listener.Addr())
	return c.followNext(ctx, func() (*line, error) { return d.next(ctx) })
}

// Join joins rank 0, which waits at this address, and waits for the others of its group.
func Join(ctx context.Context, c Config, address string) (*Group, error) {
	again := false
	return c.followNext(ctx, func() (*line, error) {
		if again {
			if err := pause(ctx, time.Second); err != nil {
				return nil, err
			}
		}
		again = true
		return c.dial(ctx, address, roleFollow, "rank 0")
	})
}

// followNext follows rank 0 over the next line to it, and over another if it has gone before all had joined.
func (c *Config) followNext(ctx context.Context, next func() (*line, error)) (*Group, error) {
	for {
		l, err := next()
		if err != nil {
			return nil, err
		}
		g, err := c.follow(ctx, l)
		if err == nil {
			return g, nil
		}
		l.close(err)
		if !errors.Is(err, ErrLost) {
			return nil, err
		}
		c.note("rank 0 at %s has gone before all had joined, trying again: %v", l.conn.RemoteAddr(), err)
	}
}

// follow takes the place that rank 0 offers.
func (c *Config) follow(ctx context.Context, l *line) (*Group, error) {
	var o offer
	if err := l.hearUntil(ctx, frameOffer, &o); err != nil { // when all have come
		return nil, err
	}
	mine := acceptance{Version: c.Version, Machine: platform.MachineID()}
	err := c.suits(o)
	if err == nil {
		mine.Address, err = c.Open(c.devices(l))
	}
	if err != nil {
		mine.Error = err.Error()
		_ = l.tell(frameAcceptance, mine)
		return nil, err
	}
	if err := l.tell(frameAcceptance, mine); err != nil {
		return nil, err
	}
	var all roster
	if err := l.hear(frameRoster, &all, 3*offerTime); err != nil {
		return nil, err
	}
	if len(all.Addresses) != o.Ranks || len(all.Machines) != o.Ranks || slices.ContainsFunc(all.Addresses, func(a []byte) bool { return len(a) == 0 }) {
		return nil, refusef("rank 0 has %d addresses for %d ranks", len(all.Addresses), o.Ranks)
	}
	return all.group(o.Rank, []*line{l}), nil
}

func (r roster) group(rank int, lines []*line) *Group {
	g := &Group{Rank: rank, Addresses: r.Addresses, lines: lines}
	for _, m := range r.Machines {
		g.Near = append(g.Near, m != "" && m == r.Machines[rank])
	}
	return g
}

// suits returns why this process does not take a place.
func (c *Config) suits(o offer) error {
	switch {
	case o.Version != c.Version:
		return refusef("it is version %q, rank 0 is %q; ranks run the same program", c.Version, o.Version)
	case o.Ranks < 2 || o.Ranks > Max || o.Rank < 1 || o.Rank >= o.Ranks:
		return refusef("rank %d of %d is no place", o.Rank, o.Ranks)
	}
	return nil
}

// dial connects to an address until it succeeds, the other side does not have the token, or ctx ends.
func (c *Config) dial(ctx context.Context, address string, r role, who string) (*line, error) {
	var d net.Dialer
	said := time.Time{}
	for {
		try, cancel := context.WithTimeout(ctx, 5*time.Second)
		conn, err := d.DialContext(try, "tcp", address)
		cancel()
		if err == nil {
			if err = c.prove(conn, r, true); err == nil {
				return newLine(conn), nil
			}
			conn.Close()
			if errors.As(err, new(refusal)) {
				return nil, fmt.Errorf("%s (%s): %w", who, address, err)
			}
		}
		if ctx.Err() == nil && time.Since(said) > time.Minute {
			c.note("%s (%s) is not there yet, trying again: %v", who, address, err)
			said = time.Now()
		}
		if err := pause(ctx, time.Second); err != nil {
			return nil, err
		}
	}
}

// A door takes connections of ranks, and turns others away.
type door struct {
	listener net.Listener
	proved   chan *line
	done     chan struct{}

	mu        sync.Mutex
	strangers []net.Conn // that have not proved the token, the oldest first
	said      time.Time  // when somebody was last noted to be turned away
}

// mostStrangers is how many connections at a time may be busy with their proofs. The oldest makes room for one more: a rank
// needs milliseconds, and connections that say nothing do not keep it out.
const mostStrangers = 64

// enter adds a stranger.
func (d *door) enter(conn net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.strangers) == mostStrangers {
		d.strangers[0].Close()
		d.strangers = d.strangers[1:]
	}
	d.strangers = append(d.strangers, conn)
}

// known removes a stranger who is none any more.
func (d *door) known(conn net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.strangers = slices.DeleteFunc(d.strangers, func(c net.Conn) bool { return c == conn })
}

// mayNote reports whether there may be a line about somebody who is turned away: not for each of many.
func (d *door) mayNote() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Since(d.said) < time.Second {
		return false
	}
	d.said = time.Now()
	return true
}

func (c *Config) open(address string, r role) (*door, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	d := &door{listener: listener, proved: make(chan *line), done: make(chan struct{})}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				select {
				case <-d.done:
					return
				case <-time.After(100 * time.Millisecond): // no file descriptors, for example
					continue
				}
			}
			d.enter(conn)
			go func() {
				err := c.prove(conn, r, false)
				d.known(conn)
				if err != nil {
					conn.Close()
					if d.mayNote() {
						c.note("%s was turned away: %v", conn.RemoteAddr(), err)
					}
					return
				}
				l := newLine(conn)
				select {
				case d.proved <- l:
				case <-l.gone: // nobody looks at it, such as where a group is complete
				case <-d.done:
					l.close(nil)
				}
			}()
		}
	}()
	return d, nil
}

// next returns the next line of a rank.
func (d *door) next(ctx context.Context) (*line, error) {
	select {
	case l := <-d.proved:
		return l, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (d *door) close() {
	close(d.done)
	d.listener.Close()
}

// A role is what a process says that it is: two of the same do not join each other.
type role byte

const (
	roleLead   role = '0'
	roleFollow role = '1'
)

const (
	magic     = "quern-ranks-1\r\n\x00"
	nonceSize = 32
	proofTime = 3 * time.Second // for the bytes of a proof
)

// prove proves to the other side of a connection that this process has the token, and the other way round. Who has dialed
// speaks and proves first: a port says nothing to who is no rank, and nothing that depends on the token to who does not have
// it.
func (c *Config) prove(conn net.Conn, r role, dialed bool) error {
	if err := conn.SetDeadline(time.Now().Add(proofTime)); err != nil {
		return err
	}
	mine := make([]byte, len(magic)+1+nonceSize)
	copy(mine, magic)
	mine[len(magic)] = byte(r)
	rand.Read(mine[len(magic)+1:])
	theirs := make([]byte, len(mine))
	greet := func() error {
		_, err := conn.Write(mine)
		return err
	}
	meet := func() error {
		if _, err := io.ReadFull(conn, theirs); err != nil {
			return fmt.Errorf("it has not said that it is a rank: %w", err)
		}
		if string(theirs[:len(magic)]) != magic {
			return refusef("it is no rank of this version of quern")
		}
		return nil
	}
	fit := func() error { // once both know what the other is
		switch other := role(theirs[len(magic)]); {
		case other == r && r == roleLead:
			return refusef("it is a rank 0 as well; the others are \"quern-cluster rank\"")
		case other == r || other != roleLead && other != roleFollow:
			return refusef("it is no rank 0")
		}
		return nil
	}
	show := func() error {
		_, err := conn.Write(c.proof(mine, theirs))
		return err
	}
	check := func() error {
		got := make([]byte, sha256.Size)
		if _, err := io.ReadFull(conn, got); err != nil {
			return err
		}
		if !hmac.Equal(got, c.proof(theirs, mine)) {
			_, _ = conn.Write(make([]byte, sha256.Size)) // no proof, so that it can say why
			return errToken
		}
		return nil
	}
	steps := []func() error{meet, greet, fit, check, show}
	if dialed {
		steps = []func() error{greet, meet, fit, show, check}
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return conn.SetDeadline(time.Time{})
}

var errToken = refusef("it does not have the token of this rank (--rank-token-file)")

// proof returns what only who has the token can say to two nonces, for the side that sent the first.
func (c *Config) proof(from, to []byte) []byte {
	h := hmac.New(sha256.New, c.Token)
	h.Write(from)
	h.Write(to)
	return h.Sum(nil)
}

// each does something for each of n at a time, and returns the error of the first that had one, after which it calls stop.
func each(n int, stop func(), do func(i int) error) error {
	errs := make(chan error, n)
	for i := range n {
		go func() { errs <- do(i) }()
	}
	var first error
	for range n {
		if err := <-errs; err != nil && first == nil {
			first = err
			stop()
		}
	}
	return first
}

func hangUp(lines []*line, why error) {
	for _, l := range lines {
		if l != nil {
			l.close(why)
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// tell sends something as JSON.
func (l *line) tell(kind byte, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return l.send(kind, text)
}

// hear waits for a frame of a kind, and reads it as JSON.
func (l *line) hear(kind byte, body any, most time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	err := l.hearUntil(ctx, kind, body)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no answer in %v: %w", most, ErrLost)
	}
	return err
}

func (l *line) hearUntil(ctx context.Context, kind byte, body any) error {
	got, text, err := l.next(ctx)
	switch {
	case err != nil:
		return err
	case got == frameBye:
		return fmt.Errorf("it has ended: %w", ErrLost)
	case got != kind:
		return refusef("it says %q, want %q", got, kind)
	}
	if err := json.Unmarshal(text, body); err != nil {
		return refusef("%w", err)
	}
	return nil
}
