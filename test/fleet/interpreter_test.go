package fleet

import (
	"strings"

	"github.com/alicebob/miniredis/v2/server"
	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"
)

type script = lua.FunctionProto

// compile reads a script.
func compile(text string) (*script, error) {
	chunk, err := parse.Parse(strings.NewReader(text), "script")
	if err != nil {
		return nil, err
	}
	return lua.Compile(chunk, "script")
}

// interpreter runs the scripts of one server, one at a time. Scripts have local variables only.
type interpreter struct {
	state   *lua.LState
	command func(args []string) (answer any, err error)
}

func newInterpreter(command func([]string) (any, error)) *interpreter {
	in := &interpreter{state: lua.NewState(lua.Options{SkipOpenLibs: true}), command: command}
	for name, open := range map[string]lua.LGFunction{lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable,
		lua.StringLibName: lua.OpenString, lua.MathLibName: lua.OpenMath} {
		in.state.Push(in.state.NewFunction(open))
		in.state.Push(lua.LString(name))
		in.state.Call(1, 0)
	}
	redis := in.state.NewTable()
	redis.RawSetString("call", in.state.NewFunction(in.call))
	redis.RawSetString("pcall", in.state.NewFunction(in.pcall))
	redis.RawSetString("error_reply", in.state.NewFunction(func(l *lua.LState) int {
		l.Push(reply(l, "err", l.CheckString(1)))
		return 1
	}))
	redis.RawSetString("status_reply", in.state.NewFunction(func(l *lua.LState) int {
		l.Push(reply(l, "ok", l.CheckString(1)))
		return 1
	}))
	in.state.SetGlobal("redis", redis)
	return in
}

func (in *interpreter) close() { in.state.Close() }

// run runs a script and writes its answer.
func (in *interpreter) run(peer *server.Peer, s *script, args []string) {
	keys, argv, err := keysAndArgs(args)
	if err != nil {
		peer.WriteError(err.Error())
		return
	}
	l := in.state
	defer l.SetTop(0)
	l.SetGlobal("KEYS", list(l, keys))
	l.SetGlobal("ARGV", list(l, argv))
	l.Push(l.NewFunctionFromProto(s))
	if err := l.PCall(0, 1, nil); err != nil {
		text := err.Error()
		if e, ok := err.(*lua.ApiError); ok {
			text = e.Object.String()
		}
		if !isErrorCode(text) {
			text = "ERR " + text
		}
		peer.WriteError(strings.ReplaceAll(text, "\n", " "))
		return
	}
	write(peer, l.Get(-1))
}

// isErrorCode reports whether a text begins with a word in capitals, as errors of Redis do.
func isErrorCode(text string) bool {
	word, _, _ := strings.Cut(text, " ")
	return word != "" && word == strings.ToUpper(word)
}

func list(l *lua.LState, all []string) *lua.LTable {
	t := l.CreateTable(len(all), 0)
	for _, s := range all {
		t.Append(lua.LString(s))
	}
	return t
}

func reply(l *lua.LState, field, text string) *lua.LTable {
	t := l.NewTable()
	t.RawSetString(field, lua.LString(text))
	return t
}

func (in *interpreter) call(l *lua.LState) int {
	v, err := in.dispatch(l)
	if err != nil {
		l.Error(lua.LString(err.Error()), 0)
	}
	l.Push(v)
	return 1
}

func (in *interpreter) pcall(l *lua.LState) int {
	v, err := in.dispatch(l)
	if err != nil {
		v = reply(l, "err", err.Error())
	}
	l.Push(v)
	return 1
}

func (in *interpreter) dispatch(l *lua.LState) (lua.LValue, error) {
	args := make([]string, l.GetTop())
	for i := range args {
		args[i] = lua.LVAsString(l.Get(i + 1))
	}
	v, err := in.command(args)
	if err != nil {
		return nil, err
	}
	return toLua(l, v), nil
}

func toLua(l *lua.LState, v any) lua.LValue {
	switch v := v.(type) {
	case nil:
		return lua.LFalse
	case int:
		return lua.LNumber(v)
	case int64:
		return lua.LNumber(v)
	case []byte:
		return lua.LString(v)
	case string:
		return lua.LString(v)
	case server.Simple:
		return reply(l, "ok", string(v))
	case []any:
		t := l.CreateTable(len(v), 0)
		for _, item := range v {
			t.Append(toLua(l, item))
		}
		return t
	}
	panic("fleet: an answer of a type that Lua has no value for")
}

func write(peer *server.Peer, v lua.LValue) {
	switch v := v.(type) {
	case lua.LNumber:
		peer.WriteInt(int(v))
	case lua.LString:
		peer.WriteBulk(string(v))
	case lua.LBool:
		if v {
			peer.WriteInt(1)
		} else {
			peer.WriteNull()
		}
	case *lua.LTable:
		if e, ok := v.RawGetString("err").(lua.LString); ok {
			peer.WriteError(string(e))
			return
		}
		if s, ok := v.RawGetString("ok").(lua.LString); ok {
			peer.WriteInline(string(s))
			return
		}
		n := 0
		for v.RawGetInt(n+1) != lua.LNil {
			n++
		}
		peer.WriteLen(n)
		for i := range n {
			write(peer, v.RawGetInt(i+1))
		}
	default:
		peer.WriteNull()
	}
}
