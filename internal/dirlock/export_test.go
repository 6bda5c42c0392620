package dirlock

// Fd returns the descriptor of the lock's file.
func (l *Lock) Fd() uintptr { return l.file.Fd() }
