package topic;

import jakarta.servlet.http.HttpServletRequest;
import java.util.LinkedHashMap;
import java.util.Map;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.web.bind.annotation.RequestHeader;
import org.springframework.web.bind.annotation.RequestMapping;
import org.springframework.web.bind.annotation.RequestMethod;
import org.springframework.web.bind.annotation.RequestParam;
import org.springframework.web.bind.annotation.RestController;

/** Spring PORT: one route, whose handler reads the query by @RequestParam. */
@SpringBootApplication
@RestController
public class Spring {
  @RequestMapping("/topic")
  public Map<String, Object> topic(
      @RequestParam(required = false) String id,
      @RequestParam(name = "topic_id", required = false) String topicId) {
    return Saw.of(id, topicId);
  }

  @RequestMapping(path = "/login", method = {RequestMethod.GET, RequestMethod.POST})
  public Map<String, Object> login(
      HttpServletRequest req, @RequestHeader(name = "X-Account", required = false) String account) {
    return Saw.login(req, account);
  }

  public static void main(String[] args) {
    SpringApplication.run(Spring.class, "--server.address=127.0.0.1", "--server.port=" + args[0],
        "--logging.level.root=off", "--spring.main.banner-mode=off");
  }
}

/** What a handler saw. */
class Saw {
  static Map<String, Object> of(String id, String topicId) {
    Map<String, Object> saw = new LinkedHashMap<>();
    saw.put("saw", true);
    saw.put("id", id);
    saw.put("topic_id", topicId);
    return saw;
  }

  static Map<String, Object> login(HttpServletRequest req, String account) {
    Map<String, Object> saw = new LinkedHashMap<>();
    saw.put("saw", true);
    saw.put("method", req.getMethod());
    saw.put("host", req.getServerName());
    saw.put("account", account);
    return saw;
  }
}
