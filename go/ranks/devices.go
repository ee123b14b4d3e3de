package ranks

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// devices returns the devices of the network that these lines go through, as UCX names them: interfaces, and the adapters
// for RDMA behind them. Ranks reach each other there; elsewhere, such as on bridges of containers, they may not.
func (c *Config) devices(lines ...*line) []string {
	var all []string
	for _, l := range lines {
		name, err := interfaceOf(l.conn.LocalAddr())
		if err != nil {
			c.note("the interface of %s is not found, ranks may try others to reach each other: %v", l.conn.LocalAddr(), err)
			continue
		}
		all = append(append(all, name), adapters("/sys/class/net", name)...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// interfaceOf returns the name of the interface that has an address.
func interfaceOf(a net.Addr) (string, error) {
	at, ok := a.(*net.TCPAddr)
	if !ok {
		return "", fmt.Errorf("it is of %s", a.Network())
	}
	list, err := net.Interfaces()
	if err != nil { // without sockets of AF_NETLINK, for example
		return "", err
	}
	for _, i := range list {
		addresses, err := i.Addrs()
		if err != nil {
			continue
		}
		for _, a := range addresses {
			if n, ok := a.(*net.IPNet); ok && n.IP.Equal(at.IP) {
				return i.Name, nil
			}
		}
	}
	return "", errors.New("none has this address")
}

// adapters returns the ports of adapters for RDMA that are an interface's device (sys: /sys/class/net), such as mlx5_0:1.
func adapters(sys, name string) (ports []string) {
	found, err := os.ReadDir(filepath.Join(sys, name, "device", "infiniband"))
	if err != nil {
		return nil
	}
	port := 0
	if text, err := os.ReadFile(filepath.Join(sys, name, "dev_port")); err == nil {
		port, _ = strconv.Atoi(strings.TrimSpace(string(text)))
	}
	for _, adapter := range found {
		ports = append(ports, fmt.Sprintf("%s:%d", adapter.Name(), port+1))
	}
	return ports
}
