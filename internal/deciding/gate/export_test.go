package gate

// ForgetDenials forgets all remembered denials.
func (g *Gate) ForgetDenials() {
	for i := range g.denials.slots {
		g.denials.slots[i].last.Store(nil)
	}
}
