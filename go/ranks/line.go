package ranks

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/quern-llm/quern/go/platform"
)

// What is sent on a line: a byte, the length of what follows, and that.
const (
	frameBeat       = 'H' // there is somebody
	frameOffer      = 'O'
	frameAcceptance = 'A'
	frameRoster     = 'R'
	frameLeaving    = 'L' // a rank is asked to end, and with it the group
	frameFailed     = 'F' // the process ends, for the reason that follows
	frameBye        = 'Q' // the process ends in order
)

const (
	mostFrame = 1 << 20 // bytes: addresses of Max ranks
	beatEvery = time.Second
	silence   = 4 * time.Second // after which a rank is lost; connections cut off end without a word
)

// A line is a connection to another rank that has proved the token. Both sides say once a second that they are
// there: a process that is stopped, and one behind a link that is down, say nothing.
type line struct {
	conn   net.Conn
	frames chan frame
	gone   chan struct{} // closed once the line is

	write sync.Mutex
	once  sync.Once
	why   error
}

type frame struct {
	kind byte
	text []byte
}

func newLine(conn net.Conn) *line {
	l := &line{conn: conn, frames: make(chan frame, 4), gone: make(chan struct{})}
	go l.read()
	go l.beat()
	return l
}

// read reads frames until the line is closed.
func (l *line) read() {
	head := make([]byte, 5)
	for {
		err := l.conn.SetReadDeadline(time.Now().Add(silence))
		if err == nil {
			_, err = io.ReadFull(l.conn, head)
		}
		n := binary.LittleEndian.Uint32(head[1:])
		if err == nil && n > mostFrame {
			err = fmt.Errorf("it sends %d bytes at a time, at most %d are read", n, mostFrame)
		}
		var text []byte
		if err == nil {
			text = make([]byte, n)
			_, err = io.ReadFull(l.conn, text)
		}
		if err != nil {
			l.close(lost(err))
			return
		}
		if head[0] == frameBeat {
			continue
		}
		select {
		case l.frames <- frame{head[0], text}:
		case <-l.gone:
			return
		}
		if head[0] == frameBye || head[0] == frameFailed {
			return
		}
	}
}

// lost returns what the end of a connection means.
func lost(err error) error {
	var late net.Error
	switch {
	case errors.As(err, &late) && late.Timeout():
		return fmt.Errorf("%w: it has said nothing for %v: it is stopped, or the network is down", ErrLost, silence)
	case errors.Is(err, io.EOF), isReset(err):
		return fmt.Errorf("%w: its process has ended", ErrLost)
	}
	return fmt.Errorf("%w: %w", ErrLost, err)
}

func isReset(err error) bool {
	return platform.IsReset(err)
}

// beat says that this process is there.
func (l *line) beat() {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		select {
		case <-l.gone:
			return
		case <-tick.C:
		}
		if l.send(frameBeat, nil) != nil { // the reader notices
			return
		}
	}
}

func (l *line) send(kind byte, text []byte) error {
	msg := append(binary.LittleEndian.AppendUint32([]byte{kind}, uint32(len(text))), text...)
	l.write.Lock()
	defer l.write.Unlock()
	err := l.conn.SetWriteDeadline(time.Now().Add(silence))
	if err == nil {
		_, err = l.conn.Write(msg)
	}
	if err != nil {
		return lost(err)
	}
	return nil
}

// next returns the next frame that is no beat. What came before the end of a line is there after it.
func (l *line) next(ctx context.Context) (kind byte, text []byte, err error) {
	select {
	case f := <-l.frames:
		return f.kind, f.text, nil
	default:
	}
	select {
	case f := <-l.frames:
		return f.kind, f.text, nil
	case <-l.gone:
		select {
		case f := <-l.frames:
			return f.kind, f.text, nil
		default:
		}
		return 0, nil, l.err()
	case <-ctx.Done():
		return 0, nil, ctx.Err()
	}
}

// err returns why the line is closed; nil while it is open.
func (l *line) err() error {
	select {
	case <-l.gone:
		return l.why
	default:
		return nil
	}
}

// close ends the line. The first reason stays.
func (l *line) close(why error) {
	l.once.Do(func() {
		if why == nil {
			why = ErrLost
		}
		l.why = why
		close(l.gone)
		l.conn.Close()
	})
}
