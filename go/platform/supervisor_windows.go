package platform

// Supervised returns the service manager, if this process is a service (RunService). It hands over no sockets.
func Supervised() (Supervisor, error) {
	if own == nil {
		return Supervisor{}, nil
	}
	return Supervisor{Asked: own.asked, tell: own.tell, exit: own.exit}, nil
}
