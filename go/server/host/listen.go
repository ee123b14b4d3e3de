package host

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/quern-llm/quern/go/platform"
)

// Listen opens each of the hosts: an address of this machine, or a socket path that
// ends in .sock. With a certificate and its key it serves TLS, except on sockets. If
// shared, other processes may listen on the same port (SO_REUSEPORT), and the kernel
// distributes connections.
func Listen(hosts []string, port int, shared bool, certFile, keyFile string) ([]net.Listener, error) {
	conf, err := secure(certFile, keyFile)
	if err != nil {
		return nil, err
	}
	var all []net.Listener
	for _, host := range hosts {
		l, err := listen(host, port, shared, conf)
		if err != nil {
			for _, l := range all {
				l.Close()
			}
			return nil, err
		}
		all = append(all, l)
	}
	return all, nil
}

// secure is how TLS is served; nil without a certificate.
func secure(certFile, keyFile string) (*tls.Config, error) {
	switch {
	case certFile != "" && keyFile != "":
		c := &certificate{cert: certFile, key: keyFile}
		if _, err := c.get(nil); err != nil {
			return nil, err
		}
		return &tls.Config{GetCertificate: c.get, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}, nil
	case certFile != "" || keyFile != "":
		return nil, errors.New("TLS needs both a certificate and its key; give --ssl-cert-file and --ssl-key-file")
	}
	return nil, nil
}

func listen(host string, port int, shared bool, conf *tls.Config) (net.Listener, error) {
	if strings.HasSuffix(host, ".sock") {
		return listenSocket(host)
	}
	var how net.ListenConfig
	if shared {
		how.Control = sharePort
	}
	l, err := how.Listen(context.Background(), "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	switch {
	case errors.Is(err, platform.AddressInUse):
		return nil, fmt.Errorf("port %d of %s is in use; give another one with --port", port, host)
	case errors.Is(err, platform.AddressUnknown):
		return nil, fmt.Errorf("%s is no address of this machine; give another one with --host", host)
	case errors.Is(err, platform.PortForbidden):
		return nil, fmt.Errorf("port %d is not for this user; give one from 1024 with --port", port)
	case errors.As(err, new(*net.DNSError)):
		return nil, fmt.Errorf("%s is not found; give an address of this machine with --host, or the path of a socket, which ends in .sock", host)
	case err != nil:
		return nil, fmt.Errorf("cannot listen: %w", err)
	}
	if conf != nil {
		l = tls.NewListener(l, conf)
	}
	return l, nil
}

// sharePort lets other processes listen on the port as well.
func sharePort(_, _ string, c syscall.RawConn) error {
	var failed error
	err := c.Control(func(fd uintptr) { failed = platform.SharePort(fd) })
	return errors.Join(err, failed)
}

// listenSocket listens at path, with access for its owner and group. A stale socket,
// whose process is gone, is replaced; any other existing file is kept.
func listenSocket(path string) (net.Listener, error) {
	if info, err := os.Lstat(path); err == nil {
		if info.Mode()&fs.ModeSocket == 0 {
			return nil, fmt.Errorf("%s is there and is not a socket; give another path with --host", path)
		}
		if c, err := net.DialTimeout("unix", path, time.Second); err == nil {
			c.Close()
			return nil, fmt.Errorf("somebody listens at %s; give another path with --host", path)
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	if most := len(syscall.RawSockaddrUnix{}.Path) - 1; len(path) > most {
		return nil, fmt.Errorf("%s has %d bytes, and the path of a socket at most %d; give a shorter one with --host", path, len(path), most)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("cannot listen: %w", err)
	}
	if err := os.Chmod(path, 0o660); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// Handed returns listeners of sockets that were handed over (platform.Supervised), of which it closes the files. The
// sockets listen on when the listeners are closed, for who has handed them over.
func Handed(sockets []*os.File) (all []net.Listener, err error) {
	for _, f := range sockets {
		l, failed := net.FileListener(f) // has a descriptor of its own
		f.Close()
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("%s cannot be served: %w", f.Name(), failed))
			continue
		}
		all = append(all, l)
	}
	if err != nil {
		for _, l := range all {
			l.Close()
		}
		return nil, err
	}
	return all, nil
}

// Secure has listeners serve TLS with a certificate and its key, except on Unix sockets, as Listen does.
func Secure(listeners []net.Listener, certFile, keyFile string) ([]net.Listener, error) {
	conf, err := secure(certFile, keyFile)
	if err != nil || conf == nil {
		return listeners, err
	}
	all := slices.Clone(listeners)
	for i, l := range all {
		if _, ok := l.Addr().(*net.TCPAddr); ok {
			all[i] = tls.NewListener(l, conf)
		}
	}
	return all, nil
}

// Hosts returns where listeners are, as Local takes it.
func Hosts(listeners []net.Listener) (all []string) {
	for _, l := range listeners {
		if at, ok := l.Addr().(*net.TCPAddr); ok {
			all = append(all, at.IP.String())
		} else {
			all = append(all, l.Addr().String())
		}
	}
	return all
}

// Local reports whether the hosts are reachable only from this machine.
func Local(hosts []string) bool {
	for _, host := range hosts {
		// No address has a slash or an @: those that were handed over may have any path, or an abstract name.
		if strings.HasSuffix(host, ".sock") || strings.ContainsAny(host, "/@") || host == "localhost" {
			continue
		}
		if ip := net.ParseIP(strings.Trim(host, "[]")); ip == nil || !ip.IsLoopback() {
			return false
		}
	}
	return true
}

// A reach says from where a listener can be reached.
type reach int

const (
	bySocket  reach = iota // by programs that may open it; pages cannot
	byMachine              // at a loopback address
	byNetwork
)

// reachKey is the context key of a reach.
type reachKey struct{}

// baseContext is the context of a listener's requests.
func baseContext(l net.Listener) context.Context {
	from := bySocket
	if addr, ok := l.Addr().(*net.TCPAddr); ok {
		if from = byNetwork; addr.IP.IsLoopback() {
			from = byMachine
		}
	}
	return context.WithValue(context.Background(), reachKey{}, from)
}

// Loopback reports whether a request came to an address that is reachable only from this machine.
func Loopback(r *http.Request) bool { return r.Context().Value(reachKey{}) == byMachine }

// Network reports whether a request came to an address that other machines may reach.
func Network(r *http.Request) bool { return r.Context().Value(reachKey{}) == byNetwork }

// A certificate is reloaded when its file changes: certificates are renewed every few
// weeks while the server runs.
type certificate struct {
	cert, key string

	mu      sync.Mutex
	pair    *tls.Certificate
	changed time.Time
}

func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	info, err := os.Stat(c.cert)
	if err == nil && (c.pair == nil || !info.ModTime().Equal(c.changed)) {
		var pair tls.Certificate
		if pair, err = tls.LoadX509KeyPair(c.cert, c.key); err == nil {
			c.pair, c.changed = &pair, info.ModTime()
		}
	}
	if c.pair == nil {
		return nil, fmt.Errorf("TLS certificate %s: %w", c.cert, err)
	}
	return c.pair, nil // keep the old one until the new one is complete
}
